"""A page on which models answer to points that are moved with the mouse: on a local server, or as one HTML file."""
