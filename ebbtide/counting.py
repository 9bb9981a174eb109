"""Numbers with their nouns."""


def count(number: int, one: str, many: str = "") -> str:
    """`1 pod`, `2 pods`; `many` where the plural takes more than an s."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"
