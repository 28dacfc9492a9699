"""Episodes of many calls: what their lines refer to, where calls continue each other or are asked again."""

from pathlib import Path

import msgspec
import pytest

from medhelm.schema.data import Instance
from medhelm.schema.episode import Call, Message, Request, Response, request_key
from medhelm.store.calls import OpenEpisode
from medhelm.store.runlog import RunFolder, read_keyed

LONG = "The patient has had a fever for two days. " * 8


def call(step: str, *texts: str, attempt: int = 0, role: str = "judge") -> Call:
    messages = tuple(Message("user" if n % 2 else "system", t) for n, t in enumerate(texts))
    request = Request(instance_id="i", messages=messages, max_output_tokens=9)
    response = Response(instance_id="i", text=f"reply to {step} {texts[-1][-9:]}")
    sent = request_key(request)
    return Call(
        role=role, step=step, attempt=attempt, sent=sent, messages=messages, response=response
    )


@pytest.mark.parametrize(
    "calls",
    [
        [call("a", "rules", LONG), call("a", "rules", LONG, "no", "again", attempt=1)],
        # the step is asked again with other messages: what began as it did refers to it no more
        [call("a", "rules", LONG), call("a", "rules", "new"), call("b", "rules", LONG, "x")],
        [call("a", "rules", LONG + "1"), call("b", "rules", LONG + "2"), call("c", "rules")],
        [call("a", "rules", LONG), call("a", "rules", LONG, "x", role="patient")],
        [call("a", "", LONG), call("b", ""), call("c", "", LONG, "", "y")],
    ],
)
def test_messages_come_back_as_they_were_sent(calls: list[Call], tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.open()
    episode = OpenEpisode(f"{7:016x}").of(Instance(id="i", context="c"), 0)
    for line in episode.begin():
        folder.append_part(line)
    lines = [episode.called(one) for one in calls]
    for line in lines:
        folder.append_part(line)

    ended = episode.ended(Response(instance_id="i"), "", {}, ())
    folder.append_part(msgspec.json.encode(ended))
    folder.close()
    ((key, found),) = read_keyed(tmp_path)
    kept = {(c.role, c.step, c.attempt): c for c in calls}
    assert key == 7
    assert {(c.role, c.step, c.attempt): c for c in found.calls} == kept
    assert [*found.stale] == [c for c in calls if kept[c.role, c.step, c.attempt] != c]


def test_a_call_that_goes_on_holds_only_what_is_new() -> None:
    episode = OpenEpisode("1").of(Instance(id="i", context="c"), 0)
    episode.called(call("a", "rules", LONG))
    episode.called(call("b", "rules", LONG + "?"))
    line = episode.called(call("a", "rules", LONG, "no", "again", attempt=1))
    assert b"fever" not in line and b"rules" not in line and b'"after"' in line
