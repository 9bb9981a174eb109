"""The admission webhook, from a single operation to the whole program."""
