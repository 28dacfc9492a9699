"""The letters of flags in text formats; `tables/notes` has what they mean."""

MARKS = {
    "coverage": "C",
    "unread": "R",
    "cut": "T",
    "partial": "P",
    "parts": "M",
    "budget": "B",
    "drift": "D",
    "usage": "U",
    "judges": "J",
    "self": "S",
    "again": "A",
}
