"""One command per published figure: `python -m bench.NAME` measures it and prints it beside what it is compared with.

Nothing here is imported by the product. `bench/peers/` holds what the figures are compared with.
"""
