"""The pool that several processes share: limits and caps hold whatever they do, and whoever is killed."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.errors import BudgetReached, RecordError
from medhelm.models.costs import Ledger
from medhelm.models.pacing.leased_pace import LeasedPacer
from medhelm.models.pacing.pool import EXPIRES_S, Lease, Pool, Report, divide, whole
from medhelm.models.pacing.pool_file import PoolFile
from medhelm.schema.episode import Usage
from medhelm.schema.model import Price

sys.path.insert(0, str(Path(__file__).parents[2] / "perf"))

from limiter import Bucket, Server, simulate

WANTS = st.lists(st.integers(1, 50), min_size=1, max_size=8)


@given(total=st.integers(0, 200), wants=WANTS)
def test_a_total_is_divided_evenly_and_nobody_gets_more_than_wanted(
    total: int, wants: list[int]
) -> None:
    parts = divide(total, wants)
    assert sum(parts) == pytest.approx(min(total, sum(wants)))
    assert all(0 <= part <= want for part, want in zip(parts, wants, strict=True))
    least = min(parts)
    assert all(p == w or p >= least - 1e-9 for p, w in zip(parts, wants, strict=True))
    assert sum(whole(parts, total)) == min(total, sum(wants))


def test_parts_are_those_worked_out_by_hand() -> None:
    assert divide(12, [1, 100, 100]) == [1, 5.5, 5.5]
    assert whole([1, 5.5, 5.5], 12) == [1, 6, 5]
    assert divide(3, [5, 5, 5, 5]) == [0.75] * 4 and whole([0.75] * 4, 3) == [1, 1, 1, 0]


@settings(deadline=None)
@given(
    maximum=st.integers(1, 20),
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.floats(0.01, 4.0))),
)
def test_no_more_are_granted_in_all_than_the_maximum(
    maximum: int, steps: list[tuple[int, int, float]]
) -> None:
    """Each process has in flight what its last lease allowed, and gives up slowly what is taken away."""
    pool, now = Pool(4), 0.0
    flying, heard = dict.fromkeys(range(4), 0), dict.fromkeys(range(4), -EXPIRES_S)
    for worker, want, seconds in steps:
        now += seconds
        for other, at in heard.items():
            if now - at > EXPIRES_S:
                flying[other] = 0  # killed, or it would have reported
        lease = pool.lease(str(worker), "e", Report(maximum, want, flying[worker]), now)
        heard[worker] = now
        flying[worker] = max(min(want, lease.most), flying[worker] - 1)
        assert sum(flying.values()) <= maximum


def test_a_part_that_nobody_reports_for_any_more_goes_to_the_others() -> None:
    pool = Pool(2)
    full = Report(8, 100, 0)
    assert pool.lease("a", "e", full, 0.0).most == 8
    assert pool.lease("b", "e", full, 0.1).most == 0  # until the first has given up its half
    assert pool.lease("a", "e", Report(8, 100, 8), 0.2).most == 4
    assert pool.lease("b", "e", full, 0.3).most == 0  # as eight are in flight yet
    assert pool.lease("a", "e", Report(8, 100, 4), 0.4).most == 4
    assert pool.lease("b", "e", full, 0.5).most == 4
    assert pool.lease("b", "e", Report(8, 100, 4), 0.5 + EXPIRES_S).most == 8  # a was killed


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "burst"), [(40.0, 40.0), (40.0, 4.0)])
def test_four_workers_use_a_bucket_as_one_process_does(rate: float, burst: float) -> None:
    slower, refused = [], []
    for seed in (1, 2, 3):  # the middle one: who comes first among equals is chance
        alone, _ = simulate(Bucket(seed, 0.05, rate=rate, burst=burst), 800)
        server = Bucket(seed, 0.05, rate=rate, burst=burst)
        seconds, errors = simulate(server, 800, workers=4)
        assert errors == 0
        slower.append(seconds / alone)
        refused.append(len(server.refused) / (len(server.refused) + len(server.answered)))
    assert median(slower) <= 1.15
    assert median(refused) <= 0.12  # of 800, most of which are the first second's


@pytest.mark.slow
def test_four_workers_have_as_many_in_flight_as_one_process() -> None:
    alone, _ = simulate(Server(0, 2.0), 1500, 128)
    server = Server(0, 2.0)
    seconds, _ = simulate(server, 1500, 128, workers=4)
    assert 120 <= server.in_flight_max <= 128 and seconds <= 1.15 * alone


def test_processes_whose_clocks_differ_share_as_well() -> None:
    """A clock a minute behind would else see every lease as new, and one ahead every other as expired."""
    pool = Pool(2)
    full = Report(8, 100, 0)
    assert pool.lease("ahead", "e", full, 60.0).most == 8
    for n in range(20):
        assert pool.lease("behind", "e", full, n / 4).most in (0, 4)
        assert pool.lease("ahead", "e", Report(8, 100, 4), 60.1 + n / 4).most == 4


def test_a_lease_that_is_not_renewed_ends() -> None:
    pacer = LeasedPacer(asyncio.Event())
    pacer.hold(Lease(8, None, 0.0, 0.0, 0.1, 0.25), 100.0)
    assert pacer.wait(100.0) == pacer.wait(99.9 + EXPIRES_S) == 0.0
    assert pacer.wait(100.0 + EXPIRES_S) > 0.0, "others may have its part by now"
    pacer.hold(Lease(8, None, 0.0, 0.0, 0.1, 0.25), 111.0)
    assert pacer.wait(111.0) == 0.0


# The budget -----------------------------------------------------------------------------------------


def spend(path: Path, worker: int, is_killed: bool) -> None:
    """Spend until the cap is reached, as a worker does; one that is killed gives nothing back."""
    pool = PoolFile(path, str(worker), Pool(4, cap_tokens=10_000))
    ledger = Ledger(None, 10_000, pool)
    spent = 0
    try:
        for _ in range(50 if is_killed else 10_000):
            ledger.reserve(None, 4, 3).settle(Usage(input_tokens=4, output_tokens=2))
            spent += 6
    except BudgetReached:
        pass
    path.with_suffix(f".{worker}").write_text(str(spent))
    if not is_killed:
        ledger.give_back()


@pytest.mark.slow
def test_a_cap_holds_for_all_processes_and_a_killed_one_keeps_a_block_at_most(
    tmp_path: Path,
) -> None:
    path = tmp_path / "pool.json"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=spend, args=(path, n, n == 0)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    spent = sum(int(path.with_suffix(f".{n}").read_text()) for n in range(4))
    taken = PoolFile(path, "", Pool(4)).read().taken_tokens
    assert spent <= taken <= 10_000
    assert spent >= 9_700  # three blocks of one per cent, at most, were never asked for


def test_a_ledger_says_which_cap_is_reached_and_gives_back_what_it_did_not_spend(
    tmp_path: Path,
) -> None:
    price = Price(input=1.0, output=1.0, date="2026-01")
    pool = PoolFile(tmp_path / "pool.json", "0", Pool(2, cap_usd=1.0, cap_tokens=2_000_000))
    ledger = Ledger(1.0, 2_000_000, pool)
    ledger.reserve(price, 100_000, 100_000).settle(
        Usage(input_tokens=100_000, output_tokens=50_000)
    )
    assert pool.read().taken_usd == pytest.approx(0.2)
    with pytest.raises(BudgetReached, match=r"1 USD .*: 0\.1500 spent"):
        ledger.reserve(price, 900_000, 0)
    ledger.give_back()
    assert pool.read().taken_usd == pytest.approx(0.15)
    assert pool.read().taken_tokens == 150_000


def test_a_damaged_pool_stops_its_processes(tmp_path: Path) -> None:
    path = tmp_path / "pool.json"
    pool = PoolFile(path, "0", Pool(2))
    pool.read()
    path.write_text("{")
    with pytest.raises(RecordError, match="all workers share"):
        pool.reserve(0.1, 0)
