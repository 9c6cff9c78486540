"""mpnp's models inside other people's frameworks. Each part needs an extra of its own, and nothing else imports them."""
