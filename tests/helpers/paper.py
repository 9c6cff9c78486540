"""What the paper says, for tests of what we build."""

# The paper prints 266 K and 877 K for its own models; the other counts follow from the same layers.
PAPER_COUNTS = {
    "cnp": 132_866,
    "np": 199_170,
    "bnp": 149_507,
    "mpnp": 265_986,
    "canp": 348_802,
    "anp": 679_298,
    "banp": 365_443,
    "mpanp": 877_186,
}
