"""mpnp's models in other frameworks. Each package needs its own extra, and no other part of mpnp imports it."""
