"""Tasks of privacy."""

from supportpilot.service import customer
from worker.app import app
from worker.runtime import runtime


@app.task(name="privacy.erase_customer")  # type: ignore[untyped-decorator] # celery has no types
def erase_customer(customer_id: str) -> str:
    """Erase a customer. A request's own id (E000001) does too: what was asked for by address names no address."""
    return customer.erase_requested(runtime().db, customer_id)
