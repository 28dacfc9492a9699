"""Limit an endpoint's requests in flight: more while throughput rises, half on time-outs.

Pure: every method is handed the time, so that the laws are tested in virtual time.
"""

from __future__ import annotations

OUTAGE = 8
"""Failures in a row that look like an outage and not like chance: at 10 % faults, 1e-8."""
GAIN = 0.15
"""The part by which twice as many at once must raise the throughput to be kept."""
HOLD = 8
"""Rounds after which more is tried again where it did not help."""
_ENOUGH = 0.9
"""The part of a round that must have ended before it is judged. The slowest are not waited for."""


class InFlightLimit:
    """The limit of requests in flight, from 1 to `maximum`.

    A round is as many requests as the limit allows, from the first that is sent until nine in
    ten have ended. A round in which the limit held requests back is judged: its throughput is
    the limit by the mean time of an answer. While that rises with the limit, the limit doubles;
    where it does not, the limit goes back and is tried again eight rounds later. A time-out
    halves the limit, at most once for what was sent before the last cut, and makes it rise by a
    tenth a round from there. So do failures in a row, after which it recovers at once.
    """

    def __init__(self, maximum: int, start: int) -> None:
        self.maximum = maximum
        self.limit = min(maximum, start)
        self.cuts = 0
        """The number of cuts so far; take it when sending, give it to `failed`."""
        self._round = 0
        self._size = self._sent = self._ended = self._answers = 0
        self._seconds = 0.0
        self._is_bound = False
        self._base: tuple[int, float] | None = None
        self._hold = 0
        self._reach = 0
        self._is_careful = False
        self._failures = self._outage_rounds = 0
        self.is_out = False
        """True after so many failures in a row that it is no chance."""
        self._begin_round()

    def keep_to(self, maximum: int) -> None:
        """Keep to another maximum from now on."""
        self.maximum = maximum
        if self.limit > self.maximum:
            self.limit = self.maximum
            self._begin_round()

    def sent(self) -> int:
        """Note that a request is sent; returns the round that it belongs to, 0 for none."""
        if self._sent >= self._size:
            return 0
        self._sent += 1
        return self._round

    def bound(self) -> None:
        """Note that a request waits because the limit is reached."""
        self._is_bound = True

    def answered(self, round_: int, seconds: float) -> None:
        """Note an answer that took so long."""
        self._failures = self._outage_rounds = 0
        self.is_out = False
        if round_ == self._round:
            self._answers += 1
            self._seconds += seconds
            self._end(round_)

    def ended(self, round_: int) -> None:
        """Note a request that ended otherwise."""
        if round_ == self._round:
            self._end(round_)

    def failed(self, round_: int, cuts: int, *, is_timeout: bool) -> int:
        """Halve the limit on a time-out or an outage.

        Returns how many rounds of an outage there have been, once in each, and 0 otherwise: as
        long as it lasts one try a round is enough, and the caller pauses for longer and longer.
        """
        self._failures += 1
        self.is_out = self._failures >= OUTAGE
        if cuts != self.cuts or not (is_timeout or self.is_out):
            self.ended(round_)
            return 0
        self.cuts += 1
        self._reach = 0 if is_timeout else max(self._reach, self.limit)
        self._is_careful |= is_timeout
        self.limit = max(1, self.limit // 2)
        self._base = None
        self._begin_round()
        self._outage_rounds += self.is_out
        return self._outage_rounds

    def _end(self, round_: int) -> None:
        self._ended += 1
        if self._ended < _ENOUGH * self._size:
            return
        if self._is_bound and self._answers and self._seconds > 0:
            self._judge(self.limit * self._answers / self._seconds)
        self._begin_round()

    def _begin_round(self) -> None:
        self._round += 1
        self._size = self.limit
        self._sent = self._ended = self._answers = 0
        self._seconds = 0.0
        self._is_bound = False

    def _judge(self, throughput: float) -> None:
        """Choose the limit after a full round."""
        if self.limit < self._reach:  # after an outage
            self.limit = min(2 * self.limit, self._reach)
        elif self._is_careful:
            self.limit = min(self.limit + max(1, self.limit // 10), self.maximum)
        elif self._base is None or self._base[0] == self.limit:
            self._hold -= 1
            if self._hold <= 0:
                self._base = (self.limit, throughput)
                self.limit = min(2 * self.limit, self.maximum)
        else:
            before, rate = self._base
            if throughput >= rate * (1 + GAIN * (self.limit / before - 1)):
                self._base = (self.limit, throughput)
                self.limit = min(2 * self.limit, self.maximum)
            else:
                self.limit, self._base, self._hold = before, None, HOLD
