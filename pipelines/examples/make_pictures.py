"""Generates the pictures of `pictures.yaml`: drawings with text, and changed copies of them.

python pipelines/examples/make_pictures.py FOLDER

The program needs Pillow, and draws the same pictures each time.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image, ImageDraw, ImageEnhance, ImageFont

WIDTH, HEIGHT = 400, 300
BOATS = ("Fulmar", "Gannet", "Kittiwake", "Petrel", "Skua", "Tern")


def draw_boat(number: int) -> Image.Image:
    """Draw a boat at sea, with its name in the sky."""
    sky = 90 + 25 * number
    image = Image.new("RGB", (WIDTH, HEIGHT), (sky // 2, sky, 235))
    draw = ImageDraw.Draw(image)
    level = 130 + 20 * number
    draw.rectangle((0, level, WIDTH, HEIGHT), (10, 60 + 20 * number, 90))
    x = 60 * (number % 4) + 20
    draw.polygon(
        [(x, level - 20), (x + 150, level - 20), (x + 120, level + 25), (x + 30, level + 25)],
        "brown",
    )
    draw.polygon(
        [(x + 70, level - 110 + 10 * number), (x + 70, level - 25), (x + 20 * number, level - 25)],
        "white",
    )
    place = (WIDTH - 170, 12)
    draw.text(place, BOATS[number], fill="black", font=ImageFont.load_default(26))
    return image


def write_all(folder: Path) -> None:
    """Write each drawing, and three changed copies of every other drawing."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, boat in enumerate(BOATS):
        image, name = draw_boat(number), folder / boat.lower()
        image.save(f"{name}.png")
        if number % 2:
            image.resize((WIDTH // 2, HEIGHT // 2)).save(f"{name}-small.png")
            image.save(f"{name}-web.jpg", quality=50)
            ImageEnhance.Brightness(image).enhance(0.85).save(f"{name}-dark.webp")


def main() -> None:
    """Read the arguments, and write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    write_all(parser.parse_args().folder)


if __name__ == "__main__":
    main()
