"""How many tokens does a word take in English, in other scripts, in code and in digits?"""

from inferlab import LLM, lab

# One sentence in five languages: article 1 of the Universal Declaration of Human Rights.
TEXTS = {
    "English": "All human beings are born free and equal in dignity and rights.",
    "German": "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "Russian": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "Chinese": "人人生而自由，在尊严和权利上一律平等。",
    "Arabic": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
    "Python": "def area(radius: float) -> float:\n    return math.pi * radius**2\n",
    "digits": "3.14159265358979323846",
}

tokenizer = LLM().tokenizer
rows = []
for name, text in TEXTS.items():
    tokens = len(tokenizer.encode(text))
    words = None if name in ("Chinese", "digits") else len(text.split())  # no spaces, no words
    rows.append(
        {
            "text": name,
            "characters": len(text),
            "words": words,
            "tokens": tokens,
            "per_word": tokens / words if words else None,
            "per_token": len(text) / tokens,
            "bytes_per_token": len(text.encode()) / tokens,
        }
    )

most = max(rows, key=lambda row: row["per_token"])
least = min(rows, key=lambda row: row["per_token"])
lab.record(
    rows=rows,
    columns=[
        lab.Column("text", "text"),
        lab.Column("characters", "characters", digits=0),
        lab.Column("words", "words", digits=0),
        lab.Column("tokens", "tokens", digits=0),
        lab.Column("per_word", "tokens per word", digits=1),
        lab.Column("per_token", "characters per token", digits=1),
        lab.Column("bytes_per_token", "bytes per token", digits=1),
    ],
    finding=f"A token carries {most['per_token']:.1f} characters of {most['text']} and "
    f"{least['per_token']:.1f} of {least['text']}.",
    chart=lab.Chart("hbar", "text", "per_token"),
    parameters={"texts": TEXTS},
)
