"""What each embedded baseline writes, on instances small enough to work out by hand."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.models import is_instance_model, open_model
from medhelm.models.baselines import BASELINES, sentences
from medhelm.models.identity import is_rankable
from medhelm.schema.data import Benchmark, Instance, Items
from medhelm.schema.model import InstanceModel, ModelSpec
from tests import made


def benchmark(answer: str, labels: tuple[str, ...] = ()) -> Benchmark:
    return made.benchmark(answer=answer, labels=labels)


def baseline(name: str) -> InstanceModel:
    model = open_model(ModelSpec(name=f"baseline/{name}", provider="baseline"))
    assert is_instance_model(model)
    return model


def say(name: str, bench: Benchmark, instance: Instance, seed: int = 0) -> str:
    return baseline(name).answer(bench, instance, seed)


CHOICE = benchmark("choice")
CHOSEN = Instance(
    id="c",
    context="He takes metformin for type 2 diabetes.",
    question="Which drug lowers glucose?",
    choices=("aspirin", "beta blocker", "metformin tablets", "Type 2 insulin"),
    references=("C",),
)
NUMBER = benchmark("number")
NUMBERED = Instance(
    id="n",
    context="Seen on day 3. The creatinine was 1,204.5 umol/l at night. Weight 70 kg.",
    question="What is the creatinine?",
    references=("1204.5", "1204"),
)
LABELS = benchmark("labels", ("kidney failure", "anemia", "heart failure"))
LABELLED = Instance(
    id="l",
    context="Failure of the heart with anemia.",
    references=("anemia", "heart failure"),
)
TEXT = benchmark("text")
WRITTEN = Instance(
    id="t",
    context="Mr. Chu came in. He had a cough for 2.5 weeks. The cough is dry! Plan: rest",
    question="How long did he have a cough?",
    references=("2.5 weeks", "two and a half weeks"),
)


@pytest.mark.parametrize(
    ("name", "choice", "number", "labels", "text"),
    [
        ("first_option", "A", "0", "kidney failure", "None."),
        # metformin tablets: 1 of 2 words stand there; Type 2 insulin: 2 of 3.
        ("lexical", "D", "1204.5", "anemia, heart failure", "He had a cough for 2.5 weeks."),
        # "metformin tablets" stands nowhere as a whole; no option does.
        ("lead", "A", "3", "anemia", "Mr. Chu came in. He had a cough for 2.5 weeks."),
        ("empty", "", "", "", ""),
        ("oracle", "C", "1204.5", "anemia, heart failure", "2.5 weeks"),
    ],
)
def test_the_rules(name: str, choice: str, number: str, labels: str, text: str) -> None:
    assert say(name, CHOICE, CHOSEN) == choice
    assert say(name, NUMBER, NUMBERED) == number
    assert say(name, LABELS, LABELLED) == labels
    assert say(name, TEXT, WRITTEN) == text


@pytest.mark.parametrize(
    ("name", "context", "choices", "letter"),
    [
        ("lead", "Neither asthma nor Anemia.", ("gout", "anemia", "Asthma"), "C"),  # named first
        ("lexical", "fever and cough", ("rash", "cough", "fever"), "B"),  # the earliest of equals
    ],
)
def test_which_of_several_options(
    name: str, context: str, choices: tuple[str, ...], letter: str
) -> None:
    assert say(name, CHOICE, Instance(id="x", context=context, choices=choices)) == letter


@given(seed=st.integers(0, 2**63), order=st.permutations(range(8)))
def test_draws_depend_on_seed_and_id_only(seed: int, order: list[int]) -> None:
    model = baseline("random")
    items = [Instance(id=str(i), choices=("a", "b", "c", "d")) for i in range(8)]
    straight = [model.answer(CHOICE, item, seed) for item in items]
    shuffled = {i: baseline("random").answer(CHOICE, items[i], seed) for i in order}
    assert straight == [shuffled[i] for i in range(8)]


def test_draws_are_even() -> None:
    model = baseline("random")
    drawn = Counter(
        model.answer(CHOICE, Instance(id=str(i), choices=("a", "b", "c")), 0) for i in range(3000)
    )
    assert set(drawn) == {"A", "B", "C"}
    assert all(abs(n - 1000) < 5 * 26 for n in drawn.values())  # 5 standard deviations of 26
    numbers = {int(model.answer(NUMBER, Instance(id=str(i)), 0)) for i in range(1000)}
    assert numbers == set(range(21))
    labels = {model.answer(LABELS, Instance(id=str(i)), 0) for i in range(100)}
    assert labels == set(LABELS.labels)


def test_other_seeds_draw_otherwise() -> None:
    items = [Instance(id=str(i), choices=("a", "b", "c", "d")) for i in range(50)]
    draws = {tuple(say("random", CHOICE, item, seed) for item in items) for seed in range(5)}
    assert len(draws) == 5


@pytest.mark.parametrize(
    ("bench", "golds", "choices", "expected"),
    [
        (CHOICE, "B D D B D A", 4, "D"),
        (CHOICE, "B D D B D A", 3, "B"),  # without an option D
        (CHOICE, "C B", 3, "B"),  # of equals the smallest
        (NUMBER, "7 5", 0, "5"),
        (LABELS, "a,b b,a a,c", 0, "a, b"),  # the labels that most instances have
        (LABELS, "a b c c", 0, "c"),
    ],
)
def test_majority_is_the_most_frequent_gold(
    bench: Benchmark, golds: str, choices: int, expected: str
) -> None:
    model = baseline("majority")
    model.prepare(bench, iter([Instance(references=("z",))] * 9))  # each set is read afresh
    model.prepare(bench, (Instance(references=tuple(g.split(","))) for g in golds.split()))
    assert model.answer(bench, Instance(choices=("x",) * choices), 0) == expected


def asked(name: str, gold: str, *choices: str, cluster: str | None = None) -> Instance:
    return Instance(id=name, choices=choices, references=(gold,), cluster=cluster)


ASKED = (
    asked("1", "B", "Refuse care", "Offer support"),
    asked("2", "A", "Offer support and listen", "Refuse"),
    asked("3", "A", "Refuse at once", "Offer"),
)


def words_model(*instances: Instance, bench: Benchmark = CHOICE) -> InstanceModel:
    model = baseline("words")
    model.prepare(bench, iter(instances))
    return model


def test_words_choose_by_the_golds_of_the_other_instances_alone() -> None:
    model = words_model(*ASKED)
    # "offer" and "support" are right in 1 and 2, "refuse" is wrong there: 3 goes wrong by itself
    assert [model.answer(CHOICE, item, 0) for item in ASKED] == ["B", "A", "B"]
    # by the gold of 3 alone "offer" is wrong; without it nothing is known
    assert words_model(ASKED[2]).answer(CHOICE, ASKED[2], 0) == "A"
    assert words_model(ASKED[2]).answer(CHOICE, asked("new", "A", "Offer", "Refuse"), 0) == "B"


def test_words_leave_out_the_whole_cluster() -> None:
    twins = [asked(str(i), "B", "Listen", "Refuse", cluster="patient") for i in range(3)]
    model = words_model(*twins, asked("9", "A", "Listen", "Refuse", cluster="other"))
    assert [model.answer(CHOICE, twin, 0) for twin in twins] == ["A"] * 3


# Several items of one instance -------------------------------------------------------------


def write(instance: Instance, right: Sequence[bool]) -> str:
    return ",".join(
        name for name, is_right in zip(instance.payload, right, strict=True) if is_right
    )


MARKED = dataclasses.replace(
    benchmark("text"),
    items=Items(
        lambda instance: list(instance.payload.values()),
        lambda instance: [name in instance.references[0].split(",") for name in instance.payload],
        write,
    ),
)


def menu(name: str, gold: str, *texts: str, context: str = "") -> Instance:
    items = {f"i{i}": text for i, text in enumerate(texts, 1)}
    return Instance(id=name, payload=items, references=(gold,), context=context)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("first_option", "i1,i2,i3"),
        ("lead", "i1"),
        ("lexical", "i2,i3"),  # 0 of 2 words of the context, 1 of 2, 1 of 1
        ("empty", ""),
        ("oracle", "i3"),
    ],
)
def test_rules_answer_each_of_several_items(name: str, expected: str) -> None:
    shown = menu("x", "i3", "Give aspirin", "measure iron", "IRON", context="Low iron for a year.")
    assert baseline(name).answer(MARKED, shown, 0) == expected


def test_items_are_drawn_evenly_and_by_the_seed() -> None:
    shown = [menu(str(i), "", *"abcd") for i in range(1000)]
    drawn = [baseline("random").answer(MARKED, one, 3).split(",") for one in shown]
    assert abs(sum(len([n for n in d if n]) for d in drawn) - 2000) < 5 * 32  # 5 SD
    assert drawn == [baseline("random").answer(MARKED, one, 3).split(",") for one in shown]


@pytest.mark.parametrize(
    ("golds", "expected"),
    [(("i1,i2", ""), ""), (("i1,i2", "i1"), "i1,i2"), (("i1,i2", "", ""), "")],
)
def test_majority_marks_all_items_or_none(golds: tuple[str, ...], expected: str) -> None:
    model = baseline("majority")
    model.prepare(MARKED, (menu(str(i), gold, "a", "b") for i, gold in enumerate(golds)))
    assert model.answer(MARKED, menu("new", "", "c", "d"), 0) == expected


def test_words_mark_items_by_the_other_instances() -> None:
    items = (
        menu("1", "i1", "Measure lactate", "Give aspirin"),
        menu("2", "i1", "Measure iron", "Give iron"),
    )
    model = words_model(*items, bench=MARKED)
    assert model.answer(MARKED, items[1], 0) == "i1"
    assert model.answer(MARKED, menu("3", "", "Give lactate", "Measure"), 0).endswith("i2")


def test_words_have_no_meaning_for_other_answers_and_say_what_majority_says() -> None:
    golds = [Instance(id=str(i), references=(gold,)) for i, gold in enumerate("7557")]
    golds.append(Instance(id="4", references=("5",)))
    assert words_model(*golds).answer(NUMBER, golds[0], 0) == "5"


def test_what_reads_the_gold_is_never_ranked() -> None:
    specs = {n: ModelSpec(name=f"baseline/{n}", provider="baseline") for n in BASELINES}
    unranked = {n for n, spec in specs.items() if not is_rankable(spec)}
    assert unranked == {"majority", "oracle", "words"}
    renamed = ModelSpec(name="baseline/mine", provider="baseline", model="oracle")
    assert not is_rankable(renamed)
    lead = ModelSpec(name="baseline/oracle", provider="baseline", model="lead")
    assert is_rankable(lead)
    assert is_rankable(ModelSpec(name="baseline/oracle", provider="openai", model="oracle"))


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("bench", [CHOICE, NUMBER, LABELS, TEXT, benchmark("labels")])
def test_nothing_to_read_is_no_failure(name: str, bench: Benchmark) -> None:
    model = baseline(name)
    model.prepare(bench, iter([]))
    assert isinstance(model.answer(bench, Instance(id="x"), 0), str)
    assert isinstance(model.answer(bench, Instance(id="x", choices=("",)), 0), str)


@pytest.mark.parametrize("name", sorted(set(BASELINES) - {"oracle", "majority", "words"}))
def test_only_three_baselines_see_the_gold(name: str) -> None:
    for bench, instance in ((CHOICE, CHOSEN), (NUMBER, NUMBERED), (LABELS, LABELLED)):
        blind = Instance(
            id=instance.id,
            context=instance.context,
            question=instance.question,
            choices=instance.choices,
        )
        assert say(name, bench, instance) == say(name, bench, blind)


@given(st.text(max_size=300))
def test_sentences_lose_no_word(text: str) -> None:
    kept = "".join("".join(sentences(text)).split())
    without = "".join(text.split())
    assert Counter(c for c in kept if c.isalnum()) == Counter(c for c in without if c.isalnum())


def test_a_long_text_is_answered_with_its_own_words() -> None:
    rng = random.Random(0)
    words = ["the", "patient", "had", "3.5", "mg.", "no!", "\n"]
    text = " ".join(rng.choice(words) for _ in range(40_000)) + "." * 50_000
    for name in BASELINES:
        answer = say(name, TEXT, Instance(id="x", context=text, question="What had the patient?"))
        assert set(answer.split()) <= {*text.split(), "None."}, name
        assert bool(answer) == (name in ("random", "first_option", "lexical", "lead")), name
