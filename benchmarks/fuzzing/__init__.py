"""Random inputs for every door of mpnp, one file per door.

A case is a function of a random generator and an empty folder. It may end in an `MpnpError`, which is a refusal. Any other
exception is a failure, and so is `Corrupted`, which a case raises if an answer is wrong.
"""
