"""Answers in the language of the question: of sets in African languages, Portuguese and Spanish."""

import pytest

from medhelm import read_choice

CHOICES = ("paracetamol", "aspirin", "insulin", "heparin")
STATED = {
    "af": [
        "Die korrekte antwoord is B.",
        "Antwoord: B",
        "Die regte antwoord is (B) aspirin.",
        "Ek kies B.",
    ],
    "am": ["ትክክለኛው መልስ B ነው።", "መልስ፦ B", "መልሱ B ነው", "መልስ: ለ", "ትክክለኛው መልስ ለ ነው።", "ለ"],
    "bm": ["Jaabi ye B ye.", "Jaabi: B", "Jaabi jɔnjɔn ye B ye.", "Jaabi tiɲɛ ye B ye."],
    "ig": [
        "Azịza ya bụ B.",
        "Azịza ziri ezi bụ B.",
        "Azịza: B",
        "Nke ziri ezi bụ B.",
        "Ahọrọ m B.",
    ],
    "nso": [
        "Karabo ke B.",
        "Karabo ya maleba ke B.",
        "Karabo: B",
        "Karabo ye e nepagetšego ke B.",
        "Karabo ya nnete ke B.",
    ],
    "sn": [
        "Mhinduro ndi B.",
        "Mhinduro chaiyo ndi B.",
        "Mhinduro: B",
        "Mhinduro yakarurama ndeye B.",
        "Mhinduro yechokwadi ndiyo B.",
        "Ndinosarudza B.",
    ],
    "st": ["Karabo ke B.", "Karabo e nepahetseng ke B.", "Karabo: B", "Ke khetha B."],
    "tn": [
        "Karabo ke B.",
        "Karabo e e nepagetseng ke B.",
        "Karabo ya nnete ke B.",
        "Ke tlhopha B.",
    ],
    "ts": [
        "Nhlamulo i B.",
        "Nhlamulo leyi nga yona i B.",
        "Nhlamulo: B",
        "Nhlamulo ya kahle i B.",
        "Ndzi hlawula B.",
    ],
    "xh": [
        "Impendulo echanekileyo ngu-B.",
        "Impendulo ngu-B",
        "Impendulo: B",
        "Ndikhetha u-B.",
        "Impendulo eyiyo ngu B.",
    ],
    "zu": [
        "Impendulo ngu-B.",
        "Impendulo efanele ngu-B.",
        "Impendulo: B",
        "Ngikhetha u-B.",
        "Impendulo eyiyona ngu-B.",
    ],
    "pt": [
        "A resposta correta é a alternativa B.",
        "Alternativa B",
        "Letra B",
        "Gabarito: B",
        "A alternativa correta é a letra B.",
        "Resposta: B) aspirin",
        "B, pois a aspirina...",
        "Correta: B",
        "Opção B",
        "A resposta certa é B",
        "Portanto, a alternativa correta é: B",
        "Item B",
        "A assertiva correta é a B.",
        "A opção correta é (B)",
        "A melhor é B",
        "O correto é o item B.",
        "A melhor alternativa é a B.",
        "A paciente tem febre. A melhor opção é B.",
    ],
    "es": [
        "La respuesta correcta es la opción B.",
        "Respuesta: B",
        "Opción B",
        "La alternativa correcta es la B.",
        "La correcta es la B",
        "Respuesta correcta: B",
        "B) aspirin",
        "La opción correcta es la B: aspirin",
        "Por tanto, la B es la correcta.",
        "La B.",
    ],
}
DENIED = {
    "ig": ["Azịza abụghị B."],
    "sn": ["Mhinduro haisi B."],
    "nso": ["Karabo ga se B."],
    "st": ["Karabo ha se B."],
    "tn": ["Karabo ga se B."],
    "ts": ["Nhlamulo a hi B."],
    "bm": ["Jaabi tɛ B ye."],
    "af": ["Die antwoord is nie B nie."],
    "pt": ["A resposta não é B.", "A alternativa B está incorreta."],
    "es": ["La respuesta no es B.", "La B es incorrecta."],
    "zu": ["Impendulo akuyona u-B."],
    "de": [
        "Manche sagen, die Antwort ist B.",
        "B w\u00e4re richtig, wenn der Patient \u00e4lter w\u00e4re.",
    ],
    "fr": ["On pourrait penser que B est correcte.", "La moins probable est la B."],
    "zh": [
        "\u6709\u4eba\u8ba4\u4e3a\u7b54\u6848\u662fB\u3002",
        "B\u770b\u4f3c\u6b63\u786e\uff0c\u4f46\u5b9e\u9645\u4e0a\u662f\u9519\u8bef\u7684\u3002",
        "\u7b54\u6848\uff1aB\u6216C",
        "\u7b54\u6848\uff1aB\u548cC",
    ],
    "ko": ["B\ub294 \uc815\ub2f5\uc774 \uc544\ub2d9\ub2c8\ub2e4."],
    "es, others": ["La menos correcta es la B.", "Algunos dir\u00edan que la B es correcta."],
}


@pytest.mark.parametrize("language", STATED)
def test_what_is_stated_is_read(language: str) -> None:
    found = {reply: read_choice(reply, CHOICES).value for reply in STATED[language]}
    assert found == dict.fromkeys(STATED[language], "B")


@pytest.mark.parametrize("language", DENIED)
def test_what_is_denied_is_not(language: str) -> None:
    found = {reply: read_choice(reply, CHOICES).value for reply in DENIED[language]}
    assert set(found.values()) == {None}


def test_an_article_is_not_the_first_option() -> None:
    """The Portuguese article A before the best was read as option A, against what is stated."""
    for reply in ("A melhor conduta é a B.", "A melhor conduta é repouso."):
        assert read_choice(reply, CHOICES).value is None
    assert read_choice("A paciente tem febre. A melhor opção é C.", CHOICES).value == "C"


def test_the_ninth_option_is_not_a_word_of_tsonga() -> None:
    ten = tuple(f"drug {n}" for n in range(10))
    assert read_choice("I", ten).value == "I"
    assert read_choice("Nhlamulo: I", ten).value == "I"
