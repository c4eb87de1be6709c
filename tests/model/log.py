"""What lies between dispatchers and workers: the log `reports`, and the workers' inboxes."""

from collections.abc import Iterator

from tests.model.state import ABSENT, DEAD, ECHO, Notice, State, Step


def trimmed(state: State) -> State:
    """Drop from the log what everybody has read for good."""
    read = state.position
    for dispatcher in state.dispatchers:
        if dispatcher.stage:
            read = min(read, dispatcher.position)
    if not read:
        return state
    first, second = (
        one._replace(position=one.position - read) if one.stage else one for one in state.dispatchers
    )
    return state._replace(log=state.log[read:], position=state.position - read, dispatchers=(first, second))


def renumbered(state: State, number: int) -> State:
    """Number a dispatcher's echoes from 1 again: their order matters, not how many there ever were."""
    me = state.dispatchers[number]
    own = [report.epoch for report in state.log if report.kind == ECHO and report.worker == number]
    if me.sequence == len(own) + len(me.echoes):
        return state
    known = sorted({*own, *me.echoes})
    rank = {sequence: n for n, sequence in enumerate(known, 1)}
    sequence = sum(1 for one in known if one <= me.sequence)
    log = tuple(
        report._replace(epoch=rank[report.epoch])
        if report.kind == ECHO and report.worker == number
        else report
        for report in state.log
    )
    me = me._replace(sequence=sequence, echoes=tuple(rank[one] for one in me.echoes))
    return state._replace(log=log).with_dispatcher(number, me)


class Inboxes:
    """Who reads what: processes of one name share an inbox, and know by the boot id whom a notice is for."""

    def __init__(self, names: tuple[int, ...], room: int) -> None:
        """Take the name of each worker process, and how many notices may lie unread."""
        self._names = names
        self._room = room

    def put(self, state: State, notice: Notice) -> State | None:
        """Return the state with a notice delivered, None while some reader has no room."""
        workers = list(state.workers)
        for number, worker in enumerate(workers):
            if self._names[number] != self._names[notice.worker] or worker.life in {ABSENT, DEAD}:
                continue
            if worker.inbox[-1:] == (notice,):
                continue  # the same once more, before anybody read the first: that changes nothing
            if len(worker.inbox) >= self._room:
                return None
            workers[number] = worker._replace(inbox=(*worker.inbox, notice))
        return state._replace(workers=tuple(workers))

    def mishaps(self, state: State) -> Iterator[Step]:
        """Lose a notice that nobody has read, or hold it up: who sends it may die, or be stopped, after the commit.

        Held up it comes behind what was committed later. One that is merely slow needs no state: it is not read yet.
        """
        for notice in state.held_up:
            put = self.put(state, notice)
            if put is not None:
                text = f"the {notice.kind} of epoch {notice.epoch} for %s arrives late"
                yield Step(text, put._replace(held_up=()), notice.worker)
        if not state.can.losses and not state.can.delays:
            return
        for worker in state.workers:
            for notice in worker.inbox[-1:]:
                text = f"the {notice.kind} of epoch {notice.epoch} for %s"
                without = self._taken_out(state, notice)
                if state.can.losses:
                    yield Step(f"{text} is lost", without, notice.worker, fault="losses")
                if state.can.delays and not state.held_up:
                    held_up = without._replace(held_up=(notice,))
                    yield Step(f"{text} is held up", held_up, notice.worker, fault="delays")

    @staticmethod
    def _taken_out(state: State, notice: Notice) -> State:
        workers = tuple(
            worker._replace(inbox=worker.inbox[:-1]) if worker.inbox[-1:] == (notice,) else worker
            for worker in state.workers
        )
        return state._replace(workers=workers)
