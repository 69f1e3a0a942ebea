"""What the sanitizer says: both calls, their queues, the value, the line, and what would make it right."""

from __future__ import annotations

from vxgraph.errors import HazardError
from vxgraph.runtime.backends.sanitizer.access import Access
from vxgraph.runtime.backends.sanitizer.work import Work
from vxgraph.topology.ids import Topology


def early_read(work: Work, access: Access, writer: Work) -> HazardError:
    """A read that no event orders after its write."""
    return HazardError(
        f"{work.what} reads {access.name} while {writer.what} may still be writing it",
        kind="unordered read",
        loc=work.loc,
        details=(
            f"read:  {work}",
            f"write: {writer}",
            f"bytes {access.bytes} of {work.queue.topology}; no event orders the two: the read must wait for the write",
        ),
    )


def overwritten(work: Work, access: Access, writer: Work, reader: Work) -> HazardError:
    """A write over what another queue may still read: a copy's source, or a slot that was given away too early."""
    return HazardError(
        f"{work.what} writes {access.name} over bytes that {reader.what} may still be reading",
        kind="overwritten source" if reader.queue.kind == "copy" else "slot reused early",
        loc=work.loc,
        details=(
            f"write: {work}",
            f"read:  {reader}",
            f"bytes {access.bytes} of {work.queue.topology}, which hold what {writer.what} wrote; no event orders the "
            "two: the write must wait for the read",
        ),
    )


def two_writes(work: Work, access: Access, writer: Work) -> HazardError:
    """Two writes of which either may be the last."""
    return HazardError(
        f"{work.what} writes {access.name} over bytes that {writer.what} may still be writing",
        kind="unordered write",
        loc=work.loc,
        details=(
            f"write: {work}",
            f"write: {writer}",
            f"bytes {access.bytes} of {work.queue.topology}; no event orders the two: one must wait for the other",
        ),
    )


def stale(work: Work, access: Access, found: Work) -> HazardError:
    """A read of bytes that are not the value any more, or not yet."""
    if access.maker is None:
        return HazardError(
            f"{work.what} reads {access.name}, which nothing has made yet in this run",
            kind="stale read",
            loc=work.loc,
            details=(
                f"read:  {work}",
                f"found: what {found} wrote",
                f"bytes {access.bytes} of {work.queue.topology}: what makes {access.name} must come first",
            ),
        )
    return HazardError(
        f"{work.what} reads {access.name}, but its bytes are what {found.what} wrote",
        kind="stale read",
        loc=work.loc,
        details=(
            f"read:   {work}",
            f"wanted: what {access.maker} wrote",
            f"found:  what {found} wrote",
            f"bytes {access.bytes} of {work.queue.topology}: the slot was given to another value too early",
        ),
    )


def poisoned(work: Work, access: Access, missing: int) -> HazardError:
    """A read of bytes that nothing has written."""
    return HazardError(
        f"{work.what} reads {access.name}, {missing} bytes of which nothing has written",
        kind="poisoned read",
        loc=work.loc,
        details=(
            f"read: {work}",
            f"bytes {access.bytes} of {work.queue.topology}: what makes {access.name} is missing, or writes elsewhere",
        ),
    )


def foreign(work: Work, name: str, home: str, writer: Work | None) -> HazardError:
    """An operand whose bytes are in another address space."""
    made = (f"made by: {writer}",) if writer else ()
    return HazardError(
        f"{work.what} wants {name} on {work.queue.topology}, but its bytes are on {home}",
        kind="foreign dereference",
        loc=work.loc,
        details=(f"access: {work}", *made, "transfer it first: a device cannot read another one's memory"),
    )


def over_operand(work: Work, out: Access, operand: Access) -> HazardError:
    """A result on an operand's bytes, which the op does not give away."""
    return HazardError(
        f"{work.what} writes {out.name} over its own operand {operand.name}",
        kind="slot reused early",
        loc=work.loc,
        details=(
            f"both:  {work}",
            f"bytes {out.bytes} and {operand.bytes} of {work.queue.topology} overlap, and the op does not donate "
            f"{operand.name}",
        ),
    )


def mismatch(work: Work, maker: Work | None, ends: str) -> HazardError:
    """A transfer whose two ends are not the same type."""
    made = (f"source made by: {maker}",) if maker else ()
    return HazardError(
        f"{work.what} moves {ends}",
        kind="mismatched transfer",
        loc=work.loc,
        details=(f"transfer: {work}", *made, "size, dtype and layout of both ends must be those of the transfer"),
    )


def misfit(work: Work, what: str) -> HazardError:
    """A kernel whose operands or results are not of the types that its op has."""
    return HazardError(
        f"{work.what} has {what}",
        kind="mismatched operands",
        loc=work.loc,
        details=(f"kernel: {work}", "its slots' types must be those that the op infers"),
    )


def undelivered(work: Work, wrong: int, nbytes: int) -> HazardError:
    """A copy that is done, and whose destination is not its source."""
    return HazardError(
        f"{work.what} is done, but {wrong} of its {nbytes} bytes did not arrive",
        kind="undelivered transfer",
        loc=work.loc,
        details=(f"transfer: {work}",),
    )


def scribbled(work: Work) -> HazardError:
    """A kernel that wrote into an operand which is not its to write."""
    return HazardError(
        f"{work.what} writes into one of its operands",
        kind="overwritten operand",
        loc=work.loc,
        details=(f"kernel: {work}", "a kernel writes its results, and the operand that its op donates"),
    )


def unwritten(work: Work, result: str, missing: int) -> HazardError:
    """A kernel that is done, and left elements of a result as they were."""
    return HazardError(
        f"{work.what} is done, but {missing} elements of its result {result} were not written",
        kind="unwritten result",
        loc=work.loc,
        details=(f"kernel: {work}",),
    )


def never(work: Work, name: str) -> HazardError:
    """A wait for what has not been asked for: the host would stand there for ever."""
    return HazardError(
        f"deadlock: {work.what} waits for %{name}, which nothing before it makes",
        kind="deadlock",
        loc=work.loc,
        details=(f"waiting: {work}", f"%{name} must come before it in program order, in the same step"),
    )


def freed_in_use(name: str, user: Work) -> HazardError:
    """A buffer given back under a call that may still use it."""
    return HazardError(
        f"{name} is freed while {user.what} may still use it",
        kind="freed in use",
        loc=user.loc,
        details=(f"user: {user}", "wait for it before the buffer is freed"),
    )


def freed_twice(topology: Topology) -> HazardError:
    """A buffer that was given back before; the message is every backend's."""
    return HazardError(f"free on {topology}: the buffer was freed", kind="freed twice")


def leaked(names: list[str]) -> HazardError:
    """Memory that nobody gave back."""
    return HazardError(
        f"closed with memory that was not freed: {', '.join(names)}",
        kind="leak",
        details=("what allocates a buffer frees it before the backend is closed",),
    )
