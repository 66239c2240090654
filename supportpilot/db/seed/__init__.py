"""Demo data of an invented bookkeeping service."""


def seed(url: str) -> object:
    """Fill the database at `url` with the demo data."""
    raise NotImplementedError(url)
