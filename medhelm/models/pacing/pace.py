"""The rate at which an endpoint is asked, once it refuses requests (429) because of their rate.

Pure: every method is handed the time, so that the laws below are tested in virtual time.
"""

from __future__ import annotations

import math

import msgspec

LEAST_COUNT = 8
"""Requests that a window needs before its share of refusals says anything."""
PROBE_COUNT = 4
"""The same while the rate is being found from below."""
OPEN_COUNT = 64
"""Requests of a window without a pace."""
BEARABLE = 0.1
"""The share of refusals, beyond the usual one, from which an endpoint without a pace gets one."""
BEARABLE_AGAIN = 0.4
"""The same where a pace did not help before."""
TOLERATED = 0.03
"""The same for an endpoint with a pace, which is lowered from there on."""
SAME_RATE = 0.5
SAME_COUNT = 6
"""If as large a share is refused at this part of the rate that was accepted at first, refusals
do not come from the rate. That is reported once so many of them are to be expected."""
SAME_NONE = 3
"""Without a single refusal, so many that were to be expected show that they come from it."""
LOWEST = 0.4
"""The part of the rate that was accepted at first below which no rate goes before that is known."""
USED = 0.7
"""The part of a pace that must have been sent before it rises."""
NEARLY_ALL = 0.9
"""The share of refusals from which nothing more is sent for a while."""
WINDOW_S = 0.5
"""The shortest window; longer where refusals take long to come."""
LONGEST_OPEN_S = 10.0
"""The longest window without a pace: a rest in it would make the accepted rate look low."""
SETTLE_S = 0.05
"""The least time in which the other refusals of what was sent together are waited for."""
BELOW = (0.97, 0.9, 0.6)
"""The part of the accepted rate that is sent after refusals: the first time, the next, and then."""
RISE = 0.01
"""The part by which a pace without refusals rises in a second, near the accepted rate."""
KNOWN_COUNT = 24
"""Requests after which the accepted rate counts as known; before, it rises faster."""
REFUTED_S = 2.0
"""A bucket that holds as much as flows into it in so many seconds may hide its rate for a while.
Where more was accepted beyond the known rate, that rate is not the limit any more."""
SLOW = 0.25
SLOWEST = 0.02
"""The lowest rate after a stop, and the lowest of all, a request in 50 s."""
CATCH_UP_S = 0.02
"""A request that is late by up to this much does not delay the next ones."""
PAUSE_S = 0.5
"""The first pause where nearly all is refused and no Retry-After says how long. It doubles."""
LONGEST_PAUSE_S = 30.0
"""The longest of these pauses."""


class _Window(msgspec.Struct):
    """Numbers of requests sent and refused since `start`."""

    start: float
    sent: int = 0
    refused: int = 0
    is_bound: bool = False
    """True if a request had to wait for the pace."""

    def is_above(self, share: float) -> bool:
        """Return whether more than a share was refused than can be by chance (two deviations)."""
        expected = share * self.sent
        return self.refused > expected + 2.0 * math.sqrt(expected)


class _Known(msgspec.Struct):
    """Known facts of the rate that is accepted."""

    rate: float | None = None
    """None while it is being found from below."""
    count: float = 0.0
    """Of how many requests, the last 64 or so, it is known."""
    proven: float = 0.0
    """The rate of the last window without refusals."""
    beyond_s: float = 0.0
    """The work accepted beyond the known rate, in seconds of it."""

    def accept(self, window: _Window, seconds: float) -> None:
        """Count a window without refusals: its rate was accepted, and perhaps more would be."""
        accepted = window.sent - window.refused
        self.count = 0.5 ** (window.sent / 32) * self.count + accepted
        self.proven = accepted / seconds
        if self.rate is not None:
            self.beyond_s += max(0.0, accepted / self.rate - seconds)
            if self.beyond_s > REFUTED_S:
                self.rate = None

    def refuse(self, rate: float, window: _Window) -> None:
        """Note a rate that was found by refusals."""
        is_as_before = self.rate is not None and 0.7 < rate / self.rate < 1.4
        kept = 0.5 ** (window.sent / 32) if is_as_before else 0.0
        self.count = kept * self.count + window.sent - window.refused
        self.rate = rate
        self.proven = self.beyond_s = 0.0

    def growth(self, rate: float, seconds: float) -> float:
        """Return by what a rate without refusals is multiplied after so many seconds."""
        if self.rate is None:
            return 2.0 if self.beyond_s == 0.0 else 1.5
        if rate < 0.95 * self.rate:
            return min(1.1, self.rate / rate)
        unknown = 2.0 / max(self.count, 8.0) if self.count < KNOWN_COUNT else 0.0
        return 1.0 + RISE * min(seconds, 5.0) + unknown


class _Series(msgspec.Struct):
    """Windows from one with refusals on, until it is known whether a lower rate helps."""

    rate: float
    share: float
    """The rate of the first window, and the share that was refused beyond the usual one."""
    usual: float
    cuts: int = 0
    lower: int = 0
    """Windows at a clearly lower rate; their requests are below."""
    sent: int = 0
    refused: int = 0

    @property
    def accepted(self) -> float:
        """Return the rate that was accepted in the first window."""
        return self.rate * (1.0 - self.share - self.usual)

    def judge(self, rate: float, window: _Window) -> bool | None:
        """Count a window; returns whether a lower rate helps, None while that is not known."""
        if rate > SAME_RATE * self.accepted:
            return True if not window.refused and self.share * window.sent >= SAME_NONE else None
        self.lower += 1
        self.sent += window.sent
        self.refused += window.refused
        if not self.refused and self.share * self.sent >= SAME_NONE:
            return True
        if self.share * self.sent < SAME_COUNT or self.lower < 2:
            return None
        return self.refused - self.usual * self.sent < 0.5 * self.share * self.sent


class Paced:
    """Requests that go out at a rate, or not at all for a while, whoever decides on either."""

    rate: float | None
    _next: float
    _paused_until: float

    def take(self, now: float) -> None:
        """Note that a request was let through."""
        if self.rate is not None:
            self._next = max(self._next, now - CATCH_UP_S) + 1.0 / self.rate

    def pause(self, until: float) -> None:
        """Let nothing through until then. A longer pause that is under way stays."""
        self._paused_until = max(self._paused_until, until)


class Pacer(Paced, msgspec.Struct):
    """Spaces requests out where refusals come from their rate.

    Refusals are counted in windows against what was sent. A share too large to be chance sets
    a pace: requests go out evenly at 97 % of the rate that was accepted. Windows without
    refusals raise it, slowly near that rate; a refused share lowers it again. Where the share
    stays the same at lower rates, the refusals do not come from the rate: the pace is lifted,
    and that share counts as usual. Where nearly all is refused, nothing is sent for as long as
    the endpoint says.

    What was sent before the last cut (in another epoch) is not counted. Its state can be written down, so
    that several processes may keep one pace.
    """

    rate: float | None = None
    """Requests per second, None without a pace."""
    epoch: int = 0
    """The number of cuts so far."""
    _window: _Window = msgspec.field(default_factory=lambda: _Window(0.0))
    _next: float = 0.0
    _paused_until: float = 0.0
    _pauses: int = 0
    _settles_at: float | None = None
    _delay_s: float = SETTLE_S
    _asked_s: float | None = None
    _usual: float = 0.0
    _known: _Known = msgspec.field(default_factory=_Known)
    _series: _Series | None = None
    _cycle: _Window = msgspec.field(default_factory=lambda: _Window(0.0))

    def wait(self, now: float) -> float:
        """Return the seconds until the next request may be sent, 0 where it may be now."""
        rest_s = self.rest(now)
        return rest_s if self.rate is None else max(rest_s, self._next - now)

    def rest(self, now: float) -> float:
        """Return the seconds of the pause that is under way, 0 where there is none."""
        if self._settles_at is not None and now >= self._settles_at:
            self._settle(now)
        return max(0.0, max(self._paused_until, self._settles_at or 0.0) - now)

    def bound(self) -> None:
        """Note that a request waits for the pace."""
        self._window.is_bound = True

    def sent(self, now: float) -> int:
        """Note that a request is sent; returns the epoch, which is given to `refused`."""
        window = self._window
        if window.sent == 0 and self.rate is None:
            window.start = now
        window.sent += 1
        if self.epoch == 0 and self._cycle.sent == 0:
            self._cycle.start = now
        self._cycle.sent += 1
        if self._settles_at is None:
            self._close(now)
        return self.epoch

    def refused(self, now: float, epoch: int, delay_s: float, asked_s: float | None) -> None:
        """Note a refusal that came `delay_s` after sending and asks to wait for `asked_s`."""
        self._cycle.refused += 1
        if epoch != self.epoch:
            return
        window = self._window
        window.refused = min(window.refused + 1, window.sent)
        self._asked_s = asked_s
        self._delay_s = max(SETTLE_S, 0.8 * self._delay_s, delay_s)
        if self._settles_at is None and self._is_too_much():
            self._settles_at = now + self._delay_s

    @property
    def bearable(self) -> float:
        """Return the share of refusals from which an endpoint without a pace gets one."""
        more = BEARABLE if self._usual < BEARABLE else BEARABLE_AGAIN
        return min(self._usual + more, NEARLY_ALL)

    def _is_too_much(self) -> bool:
        """Return whether the window has to be ended at once."""
        window = self._window
        if self.rate is None:
            return window.refused >= 4 and window.is_above(self.bearable)
        if self._known.proven and window.refused >= 2:
            return window.is_above(self._usual + TOLERATED)
        return window.sent >= LEAST_COUNT and window.is_above(max(0.5, 2 * self._usual))

    def _close(self, now: float) -> None:
        """End a window that is long enough."""
        window = self._window
        seconds = now - window.start
        if self.rate is None:
            is_full = window.sent >= OPEN_COUNT and seconds >= 2 * max(WINDOW_S, self._delay_s)
            if is_full:
                self._usual += 0.3 * (window.refused / window.sent - self._usual)
            if is_full or seconds >= max(LONGEST_OPEN_S, 2 * self._delay_s):
                self._window = _Window(now)
            return
        least = PROBE_COUNT if self._known.rate is None else LEAST_COUNT
        if window.sent < least or seconds < max(WINDOW_S, 2 * self._delay_s):
            return
        usual = self._usual * window.sent
        if window.refused > usual + 2.0 * math.sqrt(usual) + TOLERATED * window.sent:
            self._settles_at = now + self._delay_s
            return
        self._pauses = 0
        self._window = _Window(now)
        if self._series is not None:
            helps = self._series.judge(self.rate, window)
            if helps is False:
                self._take_off(self._series)
                return
            if helps:
                self._series = None
        if window.is_bound and window.sent > USED * self.rate * seconds:
            self.rate *= self._known.growth(self.rate, seconds)
        self._known.accept(window, seconds)

    def _settle(self, now: float) -> None:
        """Lower the rate, or take the pace off, once all refusals of a window are there."""
        window, settled = self._window, self._settles_at
        assert settled is not None
        self._settles_at = None
        self.epoch += 1
        self._window = _Window(now)
        seconds = max(settled - self._delay_s - window.start, 1e-9)
        is_nearly_all = window.refused >= NEARLY_ALL * window.sent
        if window.sent >= PROBE_COUNT and is_nearly_all and window.is_above(self._usual):
            self._stop(now)
            return
        accepted = float(window.sent - window.refused)
        if self.rate is None and seconds < 1.0:
            # A bucket that was full says little about its rate: begin low, and double.
            self._known = _Known()
            self._set_rate(BELOW[0] * accepted, now)
            return
        rate = window.sent / seconds
        if self.rate is not None:
            rate = min(rate, self.rate)  # lower where the number in flight held requests back, too
        series = self._series
        if series is not None:
            helps = series.judge(rate, window)
            if helps is False:
                self._take_off(series)
                return
            series = None if helps else series
        if series is None:
            share = max(0.0, window.refused / window.sent - self._usual)
            series = self._series = _Series(rate, share, self._usual)
        series.cuts += 1
        found = max(accepted / seconds, rate / 4)
        if series.cuts == 1:
            found = max(found, self._known.proven)
        self._known.refuse(found, window)
        below = BELOW[min(series.cuts, len(BELOW)) - 1]
        self._set_rate(max(below * found, LOWEST * series.accepted), now)

    def _take_off(self, series: _Series) -> None:
        """Go on without a pace, which did not help."""
        self._usual = series.refused / series.sent
        self.rate = self._series = None
        self._known = _Known()

    def _stop(self, now: float) -> None:
        """Send nothing for a while, and then at the rate that was accepted since the last stop."""
        pause_s = self._asked_s
        if pause_s is None:
            pause_s = min(PAUSE_S * 2.0**self._pauses, LONGEST_PAUSE_S)
        self._pauses += 1
        self.pause(now + pause_s)
        cycle, self._cycle = self._cycle, _Window(now)
        accepted = cycle.sent - cycle.refused
        rate = accepted / max(now + pause_s - cycle.start, 1.0)
        self._known = _Known(rate, accepted) if accepted >= 2 * LEAST_COUNT else _Known()
        self._series = None
        least = 1.0 if self.rate is None else min(1.0, max(self.rate / 4, SLOW))
        self._set_rate(max(BELOW[0] * rate, least), now + pause_s)

    def _set_rate(self, rate: float, now: float) -> None:
        self.rate = max(rate, SLOWEST)
        self._next = max(self._next, now)
        self._window.start = self._next - 1.0 / self.rate
