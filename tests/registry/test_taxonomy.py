import re

import pytest

from medhelm.plugins.taxonomy import load_taxonomy


def names(subcategory: str) -> list[str]:
    return [task.name for task in load_taxonomy().subcategory(subcategory).tasks]


def test_counts_of_the_paper() -> None:
    taxonomy = load_taxonomy()
    assert len(taxonomy.categories) == 5
    assert len(list(taxonomy.subcategories())) == 22
    assert [len(c.subcategories) for c in taxonomy.categories] == [4, 4, 5, 5, 4]
    assert len(list(taxonomy.tasks())) == 118
    assert taxonomy.published_tasks == 121
    assert len({task.id for task in taxonomy.tasks()}) == 118


def test_tasks_per_subcategory_counted_by_hand_from_the_appendix() -> None:
    counts = [len(s.tasks) for s in load_taxonomy().subcategories()]
    assert counts == [12, 7, 9, 5, 9, 3, 4, 4, 5, 5, 7, 3, 6, 5, 4, 4, 3, 4, 5, 6, 4, 4]


@pytest.mark.parametrize(
    ("subcategory", "tasks"),
    [
        (  # a parenthesis replaces its head; a slash splits
            "supporting_diagnostic_decisions",
            [
                "Recognize disease patterns from symptoms",
                "Recognize disease patterns from vitals",
                "Interpret ECG",
                "Interpret spirometry",
            ],
        ),
        (  # "Analyze trials, compare treatments, assess outcomes" and "Conduct cohort studies"
            "analyzing_clinical_research_data",
            ["Analyze trials", "Compare treatments", "Assess outcomes", "Conduct cohort studies"],
        ),
        (  # "Screen and match patients, track and document recruitment"
            "managing_research_enrollment",
            ["Screen patients", "Match patients", "Track recruitment", "Document recruitment"],
        ),
        (  # "Generate/document billing, insurer communication" and two more lines
            "overseeing_financial_activities",
            [
                "Generate billing",
                "Document billing",
                "Handle insurer communication",
                "Analyze revenue",
                "Analyze costs",
                "Estimate out-of-pocket costs",
            ],
        ),
    ],
)
def test_merged_lines_are_split(subcategory: str, tasks: list[str]) -> None:
    assert names(subcategory)[: len(tasks)] == tasks


@pytest.mark.parametrize(
    "name",
    [
        "predicting_patient_risks_and_outcomes",
        "Predicting Patient Risks and Outcomes",
        "predicting_risks_and_outcomes",  # the appendix's short name
        "patient_risks_and_outcomes",
        "risks_and_outcomes",
    ],
)
def test_a_subcategory_by_each_of_its_names(name: str) -> None:
    taxonomy = load_taxonomy()
    assert taxonomy.subcategory(name).id == "predicting_patient_risks_and_outcomes"
    assert taxonomy.category_of(name).name == "Clinical Decision Support"


def test_names_lead_to_their_own_part() -> None:
    taxonomy = load_taxonomy()
    for category in taxonomy.categories:
        assert category.definition and category.inclusion and category.performer
        for subcategory in category.subcategories:
            for name in (subcategory.id, subcategory.name, *subcategory.aliases):
                assert taxonomy.subcategory(name) is subcategory
                assert taxonomy.category_of(name) is category


def test_each_part_has_an_id_of_its_own_and_a_name() -> None:
    taxonomy = load_taxonomy()
    subcategories = [n for s in taxonomy.subcategories() for n in (s.id, *s.aliases)]
    for ids in (
        [c.id for c in taxonomy.categories],
        subcategories,
        [t.id for t in taxonomy.tasks()],
    ):
        assert ids and len(ids) == len(set(ids))
        assert all(re.fullmatch("[a-z][a-z0-9_]*", own) for own in ids)
    for part in (*taxonomy.categories, *taxonomy.subcategories(), *taxonomy.tasks()):
        assert part.name.strip()
