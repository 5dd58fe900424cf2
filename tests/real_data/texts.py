"""Texts in many scripts from sensible pages: none is dropped because of its script."""

from __future__ import annotations

import json
import unicodedata

from material import Case, Json, Sight, put

SENTENCES = {
    "Chinese": "守塔人每天晚上都登上灯塔，在太阳落山之前点亮灯火。海面非常平静。",
    "Japanese": "灯台守は毎晩塔に登り、日が沈む前にランプをともしました。海はとても静かでした。",
    "Korean": "등대지기는 매일 저녁 탑에 올라가 해가 지기 전에 등불을 켰습니다. 바다는 고요했다.",
    "Thai": "ผู้ดูแลประภาคารขึ้นไปบนหอคอยทุกเย็นและจุดตะเกียงก่อนพระอาทิตย์ตก ทะเลสงบมาก",
    "Hindi": "रखवाला हर शाम मीनार पर चढ़ता था और सूरज डूबने से पहले दीपक जलाता था। समुद्र शांत था।",
    "Tamil": "காவலர் தினமும் மாலை கோபுரம் ஏறி விளக்கை ஏற்றினார். கடல் அமைதி.",
    "Arabic": "كَانَ الحَارِسُ يَصْعَدُ إِلَى البُرْجِ كُلَّ مَسَاءٍ وَيُشْعِلُ المِصْبَاحَ.",
    "Vietnamese": "Người gác đèn leo lên tháp mỗi tối và thắp đèn trước khi mặt trời lặn.",
}
# Scripts, and Gopher's rules that do not apply to them; the filter counts these as skipped.
_MEAN, _STOP = "mean word length", "stop words"
NOT_ASKED = {
    "Chinese": ("Han", _MEAN, _STOP),
    "Japanese": ("Han", _MEAN, _STOP),
    "Korean": ("Hangul", _MEAN, _STOP),
    "Thai": ("Thai", _MEAN, _STOP),
    "Hindi": ("Devanagari", _STOP),
    "Tamil": ("Tamil", _MEAN, _STOP),
    "Arabic": ("Arabic", _STOP),
    "Vietnamese": ("Latin",),
}
SOURCE: Json = {"use": "jsonl-files", "with": {"paths": ["FOLDER/*"]}}
READ: Json = {"use": "read-jsonl"}


def _page(language: str, form: str) -> str:
    return unicodedata.normalize(form, "\n".join([SENTENCES[language]] * 60))  # type: ignore[arg-type]


def _case(words: str, texts: list[str], stages: list[Json], expected: Sight) -> Case:
    rows = [json.dumps({"key": f"k{at}", "text": text}) for at, text in enumerate(texts)]
    content = "\n".join([*rows, ""]).encode()
    return Case("texts", words, put("a.jsonl", content), SOURCE, [READ, *stages], expected)


CASES = [
    _case(
        f"{language} by the rules of Gopher, {form}",
        [_page(language, form)],
        [{"use": "gopher-quality", "with": {"minStopWords": 0}}],
        Sight("COMPLETE", 1, {f"no rule in {script}: {rule}": 1 for rule in rules}),
    )
    for language, (script, *rules) in NOT_ASKED.items()
    for form in ("NFC", "NFD")
]
