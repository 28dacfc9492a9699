"""The words by which completions state an answer, in each language: data only.

A language is added by one entry here. English sentence forms that need grammar are patterns in
`marks` and `statements`; whatever can be said by a word for "answer", "option" or "correct" is here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, kw_only=True)
class Words:
    """Holds one language's words for an answer, and the little words around it."""

    answer: tuple[str, ...]
    """An answer, alone or with the words that make it correct or final in front."""
    option: tuple[str, ...] = ()
    """An option, a choice, a letter."""
    right: tuple[str, ...] = ()
    """Correct, best, final; they appear beside the answer or call an option right."""
    copula: tuple[str, ...] = ()
    """Is. A hyphen at the end joins it to the letter."""
    tail: tuple[str, ...] = ()
    """Is, in languages where it follows the letter."""
    article: tuple[str, ...] = ()
    choose: tuple[str, ...] = ()
    """I choose, as one form."""
    negation: tuple[str, ...] = ()
    """Words with which a sentence states no answer."""
    condition: tuple[str, ...] = ()
    """If: what such a sentence states holds for another case."""
    because: tuple[str, ...] = ()
    retraction: tuple[str, ...] = ()
    """Words by which a completion takes back what it has said."""


LANGUAGES: Mapping[str, Words] = {
    "Afrikaans": Words(
        answer=("antwoord",),
        option=("opsie", "keuse"),
        right=("korrekte", "korrek", "regte", "reg", "finale", "beste"),
        copula=("is",),
        article=("die", "my"),
        choose=("ek kies",),
        negation=("nie", "verkeerd", "verkeerde"),
        because=("want", "omdat"),
        retraction=("nee, wag", "regstelling"),
        condition=("indien", "as"),
    ),
    "Amharic": Words(
        answer=("መልስ", "መልሱ", "ትክክለኛው መልስ", "ትክክለኛ መልስ", "የመጨረሻ መልስ"),
        option=("ምርጫ",),
        right=("ትክክል", "ትክክለኛው", "ትክክለኛ"),
        tail=("ነው",),
        negation=("አይደለም", "ስህተት"),
        because=("ምክንያቱም",),
        retraction=("ይቅርታ",),
        condition=("ከሆነ",),
    ),
    "Arabic": Words(
        answer=("الإجابة", "الاجابة", "إجابة", "الجواب", "جواب", "إجابتي"),
        option=("الخيار", "خيار"),
        right=("الصحيحة", "الصحيح", "النهائية", "النهائي", "صحيح", "صحيحة", "الأفضل"),
        copula=("هي", "هو"),
        choose=("أختار", "اختار"),
        negation=("ليست", "ليس", "لا", "غير", "خاطئة", "خاطئ", "خطأ"),
        because=("لأن", "لان"),
        retraction=("تصحيح", "عفوا", "عذرا"),
        condition=("إذا", "لو"),
    ),
    "Bambara": Words(
        answer=("jaabi",),
        right=("jɔnjɔn", "tiɲɛ", "ɲuman", "laban"),
        copula=("ye",),
        tail=("ye", "don"),
        negation=("tɛ",),
    ),
    "Bengali": Words(
        answer=("উত্তর",), right=("সঠিক", "চূড়ান্ত"), copula=("হল", "হলো"), negation=("নয়", "ভুল")
    ),
    "Chinese": Words(
        answer=(
            *("答案", "正确答案", "最终答案", "最佳答案", "参考答案", "标准答案", "答", "回答"),
            *(
                "正確答案",
                "最終答案",
                "最終的答案",
                "最终的答案",
                "正确的答案",
                "正确选项",
                "正確選項",
            ),
        ),
        option=("选项", "選項"),
        right=("正确", "正確", "正确的", "正確的", "正确选项", "正确答案", "最佳选项", "最合适的"),
        copula=(
            "应该是",
            "應該是",
            "应该选",
            "应选",
            "应为",
            "應為",
            "就是",
            "是",
            "为",
            "為",
            "选",
        ),
        choose=("我选择", "我選擇", "选择", "選擇", "应选", "應選", "故选", "故選", "所以选")
        + ("我选", "我選", "选", "選"),
        negation=("不", "没", "沒", "并非", "错", "錯", "别选", "排除"),
        because=("因为", "因為"),
        retraction=("不对", "不對", "等等", "更正", "我错了", "等一下"),
        condition=("如果", "假如", "若"),
    ),
    "Dutch": Words(
        answer=("antwoord",),
        option=("optie", "keuze"),
        right=("juiste", "correcte", "juist", "correct", "goede", "beste"),
        copula=("is",),
        article=("het", "de", "mijn"),
        choose=("ik kies", "ik ga voor"),
        negation=("niet", "geen", "onjuist", "fout", "foute"),
        because=("omdat", "want"),
        retraction=("nee, wacht", "correctie"),
        condition=("als", "indien"),
    ),
    "French": Words(
        answer=("réponse", "reponse"),
        option=("option", "proposition", "choix", "lettre"),
        right=("correcte", "correct", "exacte", "bonne", "finale", "juste", "meilleure", "bon"),
        copula=("est donc", "c'est", "est", "serait"),
        article=("la", "le", "l'", "ma"),
        choose=(
            "je choisis",
            "je sélectionne",
            "j'opte pour",
            "je choisirais",
            "j'opterais pour",
            "je retiens",
        )
        + ("je prendrais", "je retiendrais", "je dirais"),
        negation=("n'est", "ne", "pas", "incorrecte", "incorrect", "fausse", "faux", "mauvaise"),
        because=("parce que", "car"),
        retraction=("attendez", "attends", "je me trompe", "en fait, non", "je corrige"),
        condition=("si",),
    ),
    "German": Words(
        answer=("antwort", "lösung"),
        option=("option", "antwortmöglichkeit", "antwortoption", "buchstabe"),
        right=("richtige", "korrekte", "endgültige", "beste", "richtig", "korrekt", "finale"),
        copula=("ist daher", "ist somit", "ist also", "ist", "lautet daher", "lautet", "wäre"),
        article=("die", "der", "das", "meine"),
        choose=("ich wähle", "ich entscheide mich für", "ich tippe auf", "ich nehme"),
        negation=("nicht", "kein", "keine", "falsch", "falsche", "inkorrekt", "unrichtig"),
        because=("weil", "denn", "da"),
        retraction=("moment", "nein, warte", "korrektur", "ich korrigiere", "halt, nein"),
        condition=("wenn", "falls"),
    ),
    "Hausa": Words(answer=("amsa",), copula=("ita ce", "shi ne"), negation=("ba",)),
    "Hindi": Words(
        answer=("उत्तर", "जवाब"),
        option=("विकल्प",),
        right=("सही", "अंतिम", "सर्वोत्तम"),
        copula=("है",),
        tail=("है", "हैं", "होगा"),
        negation=("नहीं", "गलत"),
        because=("क्योंकि",),
        retraction=("रुको", "रुकिए", "क्षमा करें"),
        condition=("यदि", "अगर"),
    ),
    "Igbo": Words(
        answer=("azịza", "aziza"),
        option=("nhọrọ",),
        right=("ziri ezi", "kacha mma", "ikpeazụ"),
        copula=("bụ", "bu"),
        choose=("ahọrọ m", "m họọrọ", "ana m ahọrọ"),
        negation=("abụghị", "ezighị", "adịghị"),
        because=("n'ihi na", "maka na"),
        condition=("ọ bụrụ",),
    ),
    "Indonesian": Words(
        answer=("jawaban", "jawabannya"),
        option=("pilihan", "opsi"),
        right=("yang benar", "benar", "akhir", "yang tepat", "tepat", "terbaik"),
        copula=("adalah", "ialah"),
        choose=("saya memilih",),
        negation=("bukan", "tidak", "salah"),
    ),
    "Italian": Words(
        answer=("risposta",),
        option=("opzione", "alternativa", "scelta", "lettera"),
        right=("corretta", "corretto", "giusta", "esatta", "finale", "migliore"),
        copula=("è quindi", "è", "e'", "sarebbe"),
        article=("la", "l'", "il", "mia"),
        choose=("scelgo", "seleziono", "sceglierei", "opterei per", "direi"),
        negation=("non", "errata", "sbagliata", "scorretta"),
        because=("perché", "poiché"),
        retraction=("aspetta", "mi correggo", "anzi,", "correzione"),
        condition=("se",),
    ),
    "Japanese": Words(
        answer=("正解", "答え", "解答", "回答", "最終回答", "最終的な答え", "正しい答え", "正答"),
        option=("選択肢",),
        right=("正しい", "正解", "適切", "最も適切"),
        copula=("は",),
        tail=("です", "である", "だ", "になります", "となります", "を選びます", "を選択します"),
        negation=("ない", "ません", "誤り", "間違い", "不適切"),
        because=("なぜなら",),
        retraction=("いや、", "訂正", "間違えました", "待って"),
        condition=("もし", "場合"),
    ),
    "Korean": Words(
        answer=("정답", "답", "최종 답변", "최종 답", "답변"),
        option=("선택지", "보기"),
        right=("올바른", "맞는"),
        copula=("은", "는"),
        tail=("입니다", "이다", "번입니다", "번"),
        negation=("아니", "아닙니다", "틀린"),
        condition=("만약",),
    ),
    "Persian and Urdu": Words(
        answer=("پاسخ", "جواب"),
        option=("گزینه",),
        right=("صحیح", "درست", "نهایی", "درست"),
        tail=("است", "ہے"),
        negation=("نیست", "نہیں", "غلط"),
    ),
    "Polish": Words(
        answer=("odpowiedź", "odpowiedzią"),
        option=("opcja",),
        right=("prawidłowa", "poprawna", "właściwa", "prawidłową", "poprawną", "ostateczna"),
        copula=("to", "jest"),
        choose=("wybieram",),
        negation=("nie", "błędna", "nieprawidłowa"),
    ),
    "Portuguese": Words(
        answer=("resposta", "gabarito"),
        option=("opção", "alternativa", "letra", "escolha", "item", "assertiva"),
        right=("correta", "correto", "certa", "final", "melhor"),
        copula=("é", "seria", "será"),
        article=("a", "o", "minha"),
        choose=(
            "escolho",
            "eu escolho",
            "seleciono",
            "marco",
            "escolheria",
            "eu diria",
            "optaria por",
        ),
        negation=("não", "nao", "incorreta", "errada", "errado", "falsa"),
        because=("porque", "pois"),
        retraction=("espere", "espera", "correção", "me enganei", "aliás,"),
        condition=("se", "caso"),
    ),
    "Russian": Words(
        answer=("ответ", "ответом"),
        option=("вариант", "вариант ответа"),
        right=("правильный", "верный", "окончательный", "правилен", "верен", "лучший", "правильным")
        + ("итоговый", "мой"),
        copula=("является", "будет", "это", "-", "\u2013", "\u2014"),
        choose=("я выбираю", "выбираю"),
        negation=("не", "нет", "неправильный", "неверный", "неверен", "неправильно"),
        because=("потому что", "так как"),
        retraction=("подожди", "подождите", "исправление", "я ошибся"),
        condition=("если",),
    ),
    "Shona": Words(
        answer=("mhinduro",),
        option=("sarudzo",),
        right=("chaiyo", "yakarurama", "yakanaka", "yechokwadi", "yekupedzisira", "kwayo"),
        copula=("ndi", "ndiyo", "ndeye"),
        choose=("ndinosarudza", "ndasarudza"),
        negation=("haisi", "hasi", "handi", "isiriyo"),
        because=("nekuti", "nokuti"),
        condition=("kana",),
    ),
    "Sotho and Tswana": Words(
        answer=("karabo", "karabo ya ka"),
        option=("kgetho", "khetho", "tlhopho"),
        right=(
            *("maleba", "ya maleba", "nnete", "ya nnete", "nepahetseng", "e nepahetseng"),
            *("nepagetšego", "ye e nepagetšego", "nepagetseng", "e e nepagetseng"),
            *("ya mafelelo", "ya ho qetela", "ya bofelo"),
        ),
        copula=("ke",),
        choose=("ke khetha", "ke kgetha", "ke tlhopha"),
        negation=("ga se", "ha se", "eseng", "e seng", "phošo", "phoso"),
        because=("ka gobane", "hobane", "gonne"),
    ),
    "Spanish": Words(
        answer=("respuesta", "solución"),
        option=("opción", "alternativa", "letra", "elección"),
        right=("correcta", "correcto", "final", "definitiva", "mejor", "acertada", "válida"),
        copula=("es", "sería", "debe ser", "será"),
        article=("la", "el", "mi", "una"),
        choose=(
            "elijo",
            "escojo",
            "selecciono",
            "elegiría",
            "me quedo con",
            "yo elegiría",
            "escogería",
        )
        + ("optaría por", "yo diría"),
        negation=("no", "incorrecta", "incorrecto", "errónea", "falsa", "equivocada", "nunca"),
        because=("porque", "ya que", "dado que", "pues"),
        retraction=("espera", "espere", "corrección", "me equivoqué", "mejor dicho", "perdón"),
        condition=("si",),
    ),
    "Swahili": Words(
        answer=("jibu", "jibu langu"),
        option=("chaguo", "herufi"),
        right=("sahihi", "la mwisho", "bora"),
        copula=("ni",),
        choose=("nachagua", "ninachagua"),
        negation=("si", "sio", "siyo", "sahihi si", "makosa"),
        because=("kwa sababu",),
        retraction=("samahani", "subiri"),
        condition=("ikiwa", "kama"),
    ),
    "Tsonga": Words(  # `i` is its word for is, and the letter of a ninth option
        answer=("nhlamulo", "nhlamulo i", "nhlamulo ya mina i"),
        option=("nhlawulo",),
        right=("ya kahle i", "leyi nga yona i", "ya ntiyiso i", "ya kahle", "ya ntiyiso"),
        choose=("ndzi hlawula",),
        negation=("a hi", "hoxeka", "ku hoxa"),
        because=("hikuva",),
    ),
    "Turkish": Words(
        answer=("cevap", "yanıt"),
        option=("seçenek", "şık"),
        right=("doğru", "nihai", "son"),
        tail=("seçeneğidir", "şıkkıdır"),
        negation=("değil", "değildir", "yanlış"),
        because=("çünkü",),
        retraction=("bekle",),
        condition=("eğer",),
    ),
    "Vietnamese": Words(
        answer=("đáp án", "câu trả lời", "trả lời"),
        option=("lựa chọn", "phương án"),
        right=("đúng", "chính xác", "cuối cùng", "đúng nhất"),
        copula=("là",),
        choose=("tôi chọn", "chọn"),
        negation=("không", "sai", "chưa"),
        because=("vì",),
        retraction=("khoan",),
        condition=("nếu",),
    ),
    "Xhosa and Zulu": Words(
        answer=("impendulo", "impendulo yami"),
        option=("ukhetho", "inketho"),
        right=("efanele", "elungile", "eyiyo", "yokugcina", "echanekileyo", "ichanekile"),
        copula=("ngu-", "ngu", "yi-", "u-", "ithi", "uthi"),
        choose=("ngikhetha", "ndikhetha"),
        negation=("akuyona", "ayikho", "akusiyo", "ayisiyo"),
        because=("ngoba", "kuba"),
        retraction=("uxolo",),
        condition=("uma", "ukuba"),
    ),
    "Yoruba": Words(answer=("ìdáhùn", "idahun"), copula=("ni",), negation=("kìí", "kii")),
}

_ETHIOPIC = dict(zip("\u1200\u1208\u1210\u1218\u1220", "ABCDE", strict=True))
_ETHIOPIC_LETTER = re.compile(rf"(?<!\w)[{''.join(_ETHIOPIC)}](?!\w)")
"""Matches the letters by which options are numbered in Amharic, where one is a word of its own."""


def with_latin_letters(text: str) -> str:
    """Return a text in which a letter that numbers options in another script is the Latin one."""
    return _ETHIOPIC_LETTER.sub(lambda match: _ETHIOPIC[match[0]], text)


_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Scripts without spaces around words, or with endings joined to them."""


_TELLING = {
    name: frozenset((*spoken.answer, *spoken.choose, *spoken.option, *spoken.right))
    for name, spoken in LANGUAGES.items()
}
_TOLD = tuple(frozenset().union(*_TELLING.values()))


@lru_cache(maxsize=4)
def languages_of(text: str) -> tuple[str, ...]:
    """Return the languages of which a text holds a word that can state an answer."""
    lower = text.lower()
    found = [word for word in _TOLD if word in lower]
    return tuple(name for name, telling in _TELLING.items() if not telling.isdisjoint(found))


def words(kind: str) -> str:
    """Return a pattern of all words of one kind, the longest first, without a group."""
    found = {word for language in LANGUAGES.values() for word in getattr(language, kind)}
    return any_of(found)


def any_of(found: Iterable[str]) -> str:
    """Return a pattern of words; `a b` allows several spaces, an edge letter ends the word."""
    patterns = map(_pattern, sorted(found, key=lambda word: (-len(word), word)))
    return f"(?:{'|'.join(patterns)})"


def _pattern(word: str) -> str:
    escaped = r"[ \t]{1,3}".join(map(re.escape, word.split(" ")))
    if _UNSPACED.search(word):
        return escaped
    before = r"(?<!\w)" if word[0].isalpha() else ""
    after = r"(?!\w|['\u2019]\w)" if word[-1].isalpha() else ""
    return before + escaped + after
