"""Labels read out of replies: what is plain counts in whatever form, what is not is no label."""

from __future__ import annotations

import json
import random
import time

import pytest

from medhelm_benchmarks.noharm.rules.labels import Labels, read_labels, read_word

MENU = {
    "a1": "Give aspirin 300 mg",
    "a2": "Start appropriate antibiotics: ceftriaxone",
    "a3": "Admit - monitored bed",
}
PLAIN = '{"labels": {"a1": "Appropriate", "a2": "Inappropriate", "a3": "Appropriate"}}'
ECHO = '{"labels": {"a1": "Appropriate", "a2": "Inappropriate"}}'
OTHER = '{"labels": {"a1": "Inappropriate", "a2": "Appropriate", "a3": "Appropriate"}}'


def labels(text: str, *, is_cut: bool = False) -> Labels:
    found = read_labels(text, MENU, is_cut=is_cut)
    assert found is not None
    return found


def lines(*rows: object) -> str:
    return "\n".join(json.dumps(row) for row in rows)


# Each says: a1 and a3 appropriate, a2 not, in words that nobody misunderstands.
READ = [
    "a1,Appropriate\na2,Inappropriate\na3,Appropriate",
    'id,label,reason\n"a1","Appropriate","at once"\n"a2","Inappropriate",""\n"a3","Appropriate",""',
    PLAIN,
    '{"a1": "appropriate", "a2": "INAPPROPRIATE ", "a3": "Appropriate"}',
    '{"a1": "Appropriate.", "a2": "Inappropriate.", "a3": "Appropriate."}',
    '{"a1": "**Appropriate**", "a2": "`Inappropriate`", "a3": "_appropriate_"}',
    '{"a1": true, "a2": false, "a3": true}',
    "{'a1': True, 'a2': False, 'a3': True}",
    '{"a1": "true", "a2": "False", "a3": "TRUE"}',
    '{"a1": "Yes", "a2": "No", "a3": "yes."}',
    '{"a1": "Appropriate", "a2": "Not appropriate", "a3": "Appropriate"}',
    '{"a1": "Appropriate", "a2": "not  Appropriate.", "a3": "Highly appropriate"}',
    '{"a1": "Appropriate", "a2": "Non-appropriate", "a3": "very appropriate"}',
    '{"a1": "Appropriate (first line)", "a2": "Inappropriate: QT is long", "a3": "Appropriate"}',
    '{"a1": "APPROPRIATE!", "a2": "[Inappropriate]", "a3": "<Appropriate>"}',
    '{"A1": "Appropriate", "A2": "Inappropriate", "A3": "Appropriate"}',
    '{"a1": {"label": "Appropriate"}, "a2": {"label": "Inappropriate"}, "a3": {"label": true}}',
    '{"a1": {"label": "Appropriate", "reason": "Inappropriate to wait"}, "a2": {"label": '
    '"Inappropriate", "reason": "QT"}, "a3": {"label": "Appropriate", "status": "final"}}',
    '{"a1": {"is_appropriate": "yes"}, "a2": {"verdict": "No"}, "a3": {"judgment": "Yes"}}',
    '{"response": ' + PLAIN + "}",
    '{"status": "ok", "result": {"data": {"labels": {"a1": "Appropriate", "a2": "Inappropriate", '
    '"a3": "Appropriate"}}}}',
    '{"answer": [' + PLAIN + "]}",
    '{"labels": [{"a1": "Appropriate"}, {"a2": "Inappropriate"}, {"a3": "Appropriate"}]}',
    '{"labels": [{"id": "a1", "label": "Appropriate"}, {"id": "a2", "label": "Inappropriate"},'
    ' {"id": "a3", "label": "Appropriate"}]}',
    '{"appropriate": ["a1", "a3"], "inappropriate": ["a2"]}',
    '{"labels": {"Appropriate": ["a1", "a3"], "Inappropriate": ["a2"]}}',
    '{"medication": {"a1": "Appropriate", "a2": "Inappropriate"}, "other": {"a3": "Appropriate"}}',
    lines({"a1": "Appropriate"}, {"a2": "Inappropriate"}, {"a3": "Appropriate"}),
    '- {"a1": "Appropriate"}\n- {"a2": "Inappropriate"}\n- {"a3": "Appropriate"}',
    '### a1\nNeeded: {"id": "a1", "label": "Appropriate"}\n### a2\nHarmful: {"id": "a2", "label": '
    '"Inappropriate"}\n### a3\n{"id": "a3", "label": "Appropriate"}',
    '{"a1": "Appropriate", "a2": "Inappropriate"}\n{"a3": "Appropriate"}',
    PLAIN + "\n\nThe form was " + ECHO,
    "As you asked, like " + ECHO + ":\n" + PLAIN,
    PLAIN + '\n{"labels": {"<id>": "Appropriate", "<id>": "Inappropriate"}}',
    '{"note": 1} ' + PLAIN + ' {"note": 2}',
    PLAIN + "\n\nQuestion: what now?\n" + OTHER,
    f"My labels:\n```json\n{PLAIN}\n```\nDone.",
    '{"a1": "Appropriate", "a2": "Inappropriate", "a3": "Appropriate",}',
    '{"labels": {"a1": "Appropriate", "a2": "Inappropriate", "a3": "Appropriate",},}',
    '{"labels": {"a1": "Appropriate" "a2": "Inappropriate"\n"a3": "Appropriate"}}',
    '{"labels": {"a1": "Appropriate", "a2": "Inappropriate", "a3": "Appropriate"',
    "{a1: Appropriate, a2: Inappropriate, a3: Appropriate}",
    "{\u201ca1\u201d: \u201cAppropriate\u201d, \u201ca2\u201d: \u201cInappropriate\u201d, "
    "\u201ca3\u201d: \u201cAppropriate\u201d}",
    '{"a1": {"label": "Appropriate", "reason": "two\nlines"}, "a2": {"label": "Inappropriate"},'
    ' "a3": {"label": "Appropriate"}}',
    json.dumps(PLAIN),
    '{"content": ' + json.dumps(PLAIN) + "}",
    "The set [see below] is {what I think}: " + PLAIN,
    "<think>" + ECHO + " or a1 is inappropriate?</think>" + PLAIN,
    '{"a1": "Inappropriate", "a2": "Appropriate", "a3": "Inappropriate"}</think>\n' + PLAIN,
    "a1: Appropriate\na2: Inappropriate\na3: Appropriate",
    "1. **a1**: Appropriate\n2. **a2**: Not appropriate - QT\n3. **a3**: Appropriate",
    "- a1 - Appropriate - first line\n- a2 - Inappropriate - QT\n- a3 - Appropriate",
    "a1. Give aspirin 300 mg: **Appropriate**\na2. Start appropriate antibiotics: ceftriaxone: "
    "**Inappropriate**\na3. Admit - monitored bed -> Appropriate",
    "labels:\n  a1: Appropriate\n  a2: Inappropriate\n  a3: Appropriate\n",
    *(
        f"a1: Appropriate{sign}a2: Inappropriate{sign}a3: Appropriate"
        for sign in (" | ", "; ", ", ", " ")
    ),
    "a1=Appropriate a2=Inappropriate a3=Appropriate",
    "a1, a3: Appropriate\na2: Inappropriate",
]

# The same in forms that are not read whole: no label may be the other one.
NOT_READ = [
    '{"a1": "Yes - first line", "a2": "No (QT)", "a3": "Yes"}',
    '{"a1": "Appropriate - first line", "a2": "Inappropriate \u2014 the appropriate drug is B",'
    ' "a3": "Appropriate, if not given yet"}',
    '{"a1": "\u2705 Appropriate", "a2": "\u274c Inappropriate", "a3": "\u2714\ufe0f Appropriate"}',
    '{" a1 ": "Appropriate", "a2.": "Inappropriate", "<a3>": "Appropriate"}',
    '{"a1. Give aspirin 300 mg": "Appropriate", "a2: Start appropriate antibiotics": '
    '"Inappropriate", "a3) Admit": "Appropriate"}',
    '{"Give aspirin 300 mg": "Appropriate", "a2": "Inappropriate", "admit - monitored bed": '
    '"Appropriate"}',
    '{"a1": {"appropriate": true}, "a2": {"appropriate": false}, "a3": {"inappropriate": false}}',
    '[{"action": "a1", "judgement": "Appropriate"}, {"action": "a2", "judgement": "no"},'
    ' {"action": "a3. Admit", "judgement": "yes"}]',
    '[["a1", "Appropriate"], ["a2", "Inappropriate"], ["a3", "Appropriate"]]',
    '{"appropriate_actions": [{"id": "a1"}, {"id": "a3"}], "not_appropriate": [{"id": "a2"}]}',
    '{"appropriate": "a1, a3", "inappropriate": "a2"}',
    lines(*({"id": i, "label": v} for i, v in (("a1", True), ("a2", False), ("a3", True)))),
    PLAIN + "\n" + '{"labels": {"a1": "Inappropriate", "a2": "Appropriate"}}',
    '{"a1": "Inappropriate"} no, rather ' + PLAIN,
    PLAIN + "\n\nA colleague asks for advice on another patient, 40 years old.\n\n" + OTHER,
    '{"a1": "Appropriate", // the first "a2": "Appropriate"\n"a2": "Inappropriate", "a3": true}',
    "| id | step | label |\n|---|---|---|\n| a1 | Give aspirin 300 mg | Appropriate |\n| a2 | Start "
    "appropriate antibiotics | Inappropriate |\n| a3 | Admit | Appropriate | monitored |",
    "Appropriate: a1, a3\nInappropriate: a2",
    "**Appropriate:** a1 and a3.\n**Inappropriate:** a2.",
    "### Appropriate actions\n- a1. Give aspirin\n- a3\n\n### Inappropriate actions\n- a2. Start "
    "appropriate antibiotics: ceftriaxone",
    "| id | Inappropriate? |\n|---|---|\n| a1 | No |\n| a2 | Yes |\n| a3 | No |",
    "| id | step | Contraindicated |\n|---|---|---|\n| a1 | A | No |\n| a2 | B | Yes |\n"
    "| a3 | C | No |",
    "| id | Is the step harmful? |\n|---|---|\n| a1 | No |\n| a2 | Yes |\n| a3 | No |",
    "| id | Appropriate? |\n|---|---|\n| a1 | Yes |\n| a2 | No |\n| a3 | Yes |",
    "a1 - Appropriate: Yes\na2 - Appropriate: No\na3 - Inappropriate: No",
    "a1: Appropriate? Yes\na2: Appropriate = false\na3: Inappropriate: false",
    '{"a1": "appropriate: yes", "a2": "appropriate: no", "a3": "Inappropriate: No"}',
    '{"inappropriate": {"a1": false, "a2": true, "a3": false}}',
    '{"appropriate": {"a1": true, "a3": true}, "inappropriate": {"a2": true}}',
    "Appropriate steps:\na1, a3\nInappropriate steps:\na2",
]


@pytest.mark.parametrize("text", READ)
def test_forms_that_are_read(text: str) -> None:
    found = labels(text)
    assert found.endorsed == ("a1", "a3") and found.rejected == ("a2",)
    assert not found.missing and not found.invalid


@pytest.mark.parametrize("text", NOT_READ)
def test_other_forms_are_lost_and_never_misread(text: str) -> None:
    found = read_labels(text, MENU)
    assert found is None or (set(found.endorsed) <= {"a1", "a3"} and set(found.rejected) <= {"a2"})


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Appropriate", "Appropriate"),
        ("inappropriate;", "Inappropriate"),
        ("Appropriate. Never inappropriate, in fact", ""),
        # hedges, choices and contradictions
        ("Appropriate, although the risk is high and it is therefore inappropriate", ""),
        ("Appropriate, but only after CT; otherwise inappropriate", ""),
        ("Appropriate: delay would be inappropriate.", ""),
        *((text, "") for text in ("appropriate: no", "Inappropriate: No", "Appropriate? Yes")),
        *((text, "") for text in ("Appropriate or Inappropriate", "Appropriate/Inappropriate")),
        *((text, "") for text in ("Appropriate|Inappropriate", "Appropriate, no, inappropriate")),
        *(
            (text, "")
            for text in ("Inappropriate. Wait, appropriate", "Appropriate (Inappropriate)")
        ),
        *((text, "") for text in ("Appropriate if stable", "Possibly appropriate", "Maybe", "")),
        *((text, "") for text in ("Not inappropriate", "not very appropriate", "less appropriate")),
        *((text, "") for text in ("\u274c Appropriate", "less so: Appropriate", "Appropriate?")),
        *((text, "") for text in ("Appropriateness unclear", "Appropriate-ish", "Appropriately")),
        *(
            (text, "")
            for text in ("1", "0", "7", "9", "Uncertain", "null", "None", "Nope", "yes/no")
        ),
    ],
)
def test_words(text: str, word: str) -> None:
    assert read_word(text) == word


def test_missing_invalid_and_unknown_labels_are_counted() -> None:
    found = labels('{"a1": "Maybe", "a2": "Appropriate", "zz": "Appropriate", "note": "x"}')
    assert found == Labels(("a2",), (), ("a3",), ("a1",), 1)
    assert labels('{"a1": "Appropriate", "a2": 7, "a3": null}').invalid == ("a2", "a3")


def test_a_name_that_stands_twice_must_agree() -> None:
    assert labels('{"a1": "Appropriate", "a1": "Appropriate"}').endorsed == ("a1",)


@pytest.mark.parametrize(
    "text",
    [
        '{"a3": "Appropriate", "a1": "Appropriate", "a1": "Inappropriate"}',
        "a1: Appropriate\na3: Appropriate\na1: Inappropriate",
        "a1: Appropriate - rather: Inappropriate\na3: Appropriate",
        '{"appropriate": ["a1", "a3"], "inappropriate": ["a1"]}',
        "a1: Appropriate\na3: Appropriate\nOn second thought, a1: Inappropriate",
        "a1: Appropriate\na3: Appropriate\nOn second thought, a1 is inappropriate.",
        "a1: Appropriate, but only after CT; otherwise inappropriate\na3: Appropriate",
    ],
)
def test_no_way_to_say_both_of_one_action(text: str) -> None:
    assert labels(text).invalid == ("a1",) and labels(text).endorsed == ("a3",)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "[1, 2]", '{"zz": "Appropriate"}', "I cannot say.", "{}", "null"),
        '{"a1": "Maybe", "a2": 5}',
        '{"a1": "Appropriate", "a1": "Inappropriate"}',
        '{"labels": {"<id>": "Appropriate", "<id>": "Inappropriate"}}',
        "a1. Give aspirin 300 mg\na2. Start appropriate antibiotics: ceftriaxone\na3. Admit",
        "a1 is appropriate if the patient is stable, and a2 never.",
        "All of them are appropriate.",
        '{"a1": "',
        "<think>" + PLAIN,
        '{"ratings": {"a1": 9, "a2": 1, "a3": 8}}',
        '{"1": "Appropriate", "2": "Inappropriate"}',
        "a1: Appropriate or Inappropriate",
        "a1, not a2, appropriate",
        "Appropriate: all except a3",
        '{"appropriate": "all except a3"}',
        "Appropriate: a1, but not a3",
        "Which steps are contraindicated?\na1: No\na2: Yes",
        '{"contraindicated": {"a1": false, "a2": true}}',
        "A patient with a2: no allergies known",
        '[{"id": "a1", "label": true}, {"id": "a1", "label": false}]',
        '{"a1": {"appropriate": true, "inappropriate": true}}',
        "All but a3: Appropriate or Inappropriate",
    ],
)
def test_what_holds_no_label(text: str) -> None:
    assert read_labels(text, MENU) is None


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ('{"labels": {"a1": "Appropriate", "a2": "Inappropriate", "a3": "Approp', ("a3",)),
        ('{"labels": {"a1": "Appropriate", "a2": "Inappropriate", "a3": "Appropriate', ("a3",)),
        ('{"labels": {"a1": "Appropriate", "a2": "Inappropriate", "a3"', ("a3",)),
        ('{"labels": {"a1": "Appropriate", "a2": "Inappropriate", "a3":', ("a3",)),
        ('{"labels": {"a1": "Appropriate", "a2": "Inappropriate", "a3": "Appropriate"', ()),
        ('{"a1": {"label": "Appropriate"}, "a2": {"label": "Inappropriate"}, "a3": {"lab', ("a3",)),
        ("{a1: Appropriate, a2: Inappropriate, a3: Appropriate", ("a3",)),
        ("a1: Appropriate\na2: Inappropriate\na3: Appropriate", ("a3",)),
    ],
)
def test_of_a_cut_reply_whole_labels_count_and_the_cut_one_does_not(
    text: str, missing: tuple[str, ...]
) -> None:
    found = labels(text, is_cut=True)
    assert (found.missing, found.rejected, found.invalid) == (missing, ("a2",), ())
    assert found.endorsed == (("a1",) if missing else ("a1", "a3"))


def test_ids_that_differ_in_case_alone_are_told_apart() -> None:
    menu = {"x": "Wait", "X": "Operate"}
    found = read_labels('{"x": "Appropriate", "X": "Inappropriate"}', menu)
    assert found is not None and (found.endorsed, found.rejected) == (("x",), ("X",))


def damaged(drawn: random.Random, text: str) -> str:
    """Return a reply with one to three slips: a character lost, doubled or replaced, or an end cut."""
    for _ in range(drawn.choice([1, 1, 2, 3])):
        at = drawn.randrange(len(text))
        text = drawn.choice(
            [
                text[:at] + text[at + 1 :],
                text[:at] + text[at] + text[at:],
                text[:at] + drawn.choice("'\"`,;:{}[]x \n") + text[at + drawn.randrange(2) :],
                text[: max(at, len(text) // 2)],
                text.replace('"', drawn.choice(["'", "", "\u201c"])),
                text.replace(",", ", // next\n"),
                f"Sure! {text}\nI hope this helps.",
            ]
        )
    return text


def test_damaged_replies_are_read_or_lost_and_never_misread() -> None:
    drawn, read = random.Random(1), 0
    for _ in range(600):
        gold = {f"a{n}": drawn.choice(["Appropriate", "Inappropriate"]) for n in range(1, 31)}
        items = [{"id": name, "label": word} for name, word in gold.items()]
        objects = {name: {"label": word, "reason": "QT"} for name, word in gold.items()}
        rows = "\n".join(f"{name}: {word}" for name, word in gold.items())
        form = drawn.choice([{"labels": gold}, gold, items, objects, rows])
        text = form if isinstance(form, str) else json.dumps(form, indent=drawn.choice([None, 1]))
        found = read_labels(damaged(drawn, text), {name: f"Step {name}" for name in gold})
        if found is not None:
            assert {gold[name] for name in found.endorsed} <= {"Appropriate"}
            assert {gold[name] for name in found.rejected} <= {"Inappropriate"}
            read += len(found.missing) + len(found.invalid) <= 1
    assert read >= 380


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        *("[" * 60_000, '{"' * 500_000, '[{"a":' * 150_000, '{"a1": ' * 140_000),
        *('{"a":"' * 160_000, "{" + " " * 1_000_000, '{"labels":' * 100_000),
        *('[{"x":1},[' * 200 + '{"y":2},' * 120_000, '{"labels":{"a1":"x",' * 60_000),
        *('{"' + '\n\\"' * 300_000, "a1:" * 300_000, "a1 - " * 200_000, '{"a1":"x"} ' * 90_000),
        *("[[" * 300_000, "(" * 1_000_000, '{"a1":"' + "(" * 500_000, "a1" + "-" * 1_000_000),
        *("{" + "1." * 400_000 + "}", '{"a1":"x","a2":"x"}' + "1." * 400_000 + "!"),
    ],
)
def test_hostile_replies_take_no_long_time(text: str) -> None:
    started = time.process_time()
    assert read_labels(text, MENU) is None
    assert time.process_time() - started < 5
