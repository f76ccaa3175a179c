"""Keyword spotting: a one-dimensional binary network on spectrograms of spoken words.

    python examples/keywords.py [--recordings FOLDER] [--out rows.json]

Without recordings the words are spoken by Debian's espeak-ng (apt install espeak-ng) in many voices, rates and
pitches, with noise; the speakers of the test are not those of the training. FOLDER holds WAV files of your own
(16 bit, one channel), word/*.wav; a fifth of each word is the test. Two minutes to speak, a quarter of one for each of
the fifteen trainings. `binaryduo reproduce other-tasks` repeats the committed numbers.
"""

import argparse
import io
import random
import subprocess
import wave
from pathlib import Path

import numpy as np
import torch
from three_ways import Setting, Tensors, compare, report
from torch import Tensor, nn

import binaryduo as bd

WORDS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"]
# "en-gb" is "en", but there espeak-ng 1.51 ignores the speaker. SPEAKERS are of the training, OTHERS of the test.
ACCENTS = "en en-us en-us-nyc en-gb-scotland en-gb-x-rp en-gb-x-gbclan en-gb-x-gbcwmd en-029".split()  # noqa: SIM905
SPEAKERS = """m1 f1 Alex linda max m2 Andrea f2 boris Michael m3 Annie ed f3 rob paul m4 belinda Gene steph announcer
              Denis Hugo Jacky marcelo norbert pedro quincy""".split()  # noqa: SIM905
OTHERS = "m5 f4 adam Alicia david m6 anika Mike f5 robert m7 aunty john Mario victor zac m8 Lee miguel travis".split()  # noqa: SIM905
RATE, FRAMES, BANDS = 16_000, 48, 32
SETTINGS = {"baseline": Setting(1e-2, hold=True), "scratch": Setting(1e-2, hold=True), "duo": Setting(3e-2)}


def spoken(word: str, voice: str, rate: int, pitch: int) -> bytes:
    """A word as espeak-ng says it: the content of a WAV file."""
    command = ["espeak-ng", "--stdout", "-v", voice, "-s", str(rate), "-p", str(pitch), word]
    return subprocess.run(command, check=True, capture_output=True).stdout


def samples(content: bytes) -> Tensor:
    """One second of a WAV file at 16 kHz, in [-1, 1]; shorter ones are filled up with silence."""
    with wave.open(io.BytesIO(content)) as file:
        rate, raw = file.getframerate(), file.readframes(file.getnframes())
    sound = torch.from_numpy(np.frombuffer(raw, "<i2").astype(np.float32) / 32768)
    length = round(len(sound) * RATE / rate)
    sound = nn.functional.interpolate(sound[None, None], length, mode="linear")[0, 0, :RATE]
    return nn.functional.pad(sound, (0, RATE - len(sound)))


def spectrogram(sound: Tensor) -> Tensor:
    """(BANDS, FRAMES) of log energies; bands are wider the higher they are, as the ear has them."""
    power = torch.stft(sound, 512, 333, window=torch.hann_window(512), return_complex=True).abs() ** 2
    mel = torch.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), BANDS + 2)
    edges = 700 * (10 ** (mel / 2595) - 1) / (RATE / 2) * 256
    bins = torch.arange(257)[None]
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    bank = torch.minimum((bins - low) / (middle - low), (high - bins) / (high - middle)).clamp(min=0)
    return (bank @ power[:, :FRAMES] + 1e-6).log()


def synthesised(speakers: list[str], count: int, seed: int) -> Tensors:
    """`count` utterances of every word, each shifted in time and with noise of its own."""
    choose, noise = random.Random(seed), torch.Generator().manual_seed(seed)
    inputs, labels = [], []
    for label, word in enumerate(WORDS):
        for _ in range(count):
            voice = f"{choose.choice(ACCENTS)}+{choose.choice(speakers)}"
            said = spoken(word, voice, choose.randint(110, 230), choose.randint(10, 90))
            sound = torch.roll(samples(said), choose.randint(0, RATE // 4))
            level = sound.std() * choose.uniform(0.3, 1.2)
            inputs.append(spectrogram(sound + level * torch.randn(RATE, generator=noise)))
            labels.append(label)
    return normalised(inputs), torch.tensor(labels)


def recorded(folder: Path) -> tuple[Tensors, Tensors, int]:
    """Recordings of your own, word/*.wav: four fifths to train with, a fifth to test."""
    parts: list[tuple[list[Tensor], list[int]]] = [([], []), ([], [])]
    words = sorted(path for path in folder.iterdir() if path.is_dir())
    for label, word in enumerate(words):
        for number, file in enumerate(sorted(word.glob("*.wav"))):
            inputs, labels = parts[number % 5 == 0]
            inputs.append(spectrogram(samples(file.read_bytes())))
            labels.append(label)
    train, test = ((normalised(inputs), torch.tensor(labels)) for inputs, labels in parts)
    return train, test, len(words)


def normalised(spectrograms: list[Tensor]) -> Tensor:
    return nn.functional.layer_norm(torch.stack(spectrograms), (BANDS, FRAMES))


def network(words: int) -> nn.Module:
    """Convolutions over time, the bands being the channels, as TC-ResNet has them."""

    def block(inputs: int, outputs: int) -> list[nn.Module]:
        conv = bd.nn.BinaryConv1d(inputs, outputs, 9, padding=4, bias=False)
        return [conv, nn.MaxPool1d(2), nn.BatchNorm1d(outputs), bd.nn.QuantAct()]

    stem = [nn.Conv1d(BANDS, 48, 3, padding=1, bias=False), nn.BatchNorm1d(48), bd.nn.QuantAct()]
    head = [nn.Flatten(), nn.Linear(96 * 6, words)]
    return nn.Sequential(*stem, *block(48, 64), *block(64, 64), *block(64, 96), *head)


def main(train: Tensors, test: Tensors, words: int, epochs: int, seeds: list[int]) -> list[dict[str, float]]:
    return compare(lambda: network(words), train, test, epochs, seeds, SETTINGS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--recordings", type=Path)
    parser.add_argument("--out")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    given = parser.parse_args()
    if given.recordings is None:
        data = synthesised(SPEAKERS, 800, 0), synthesised(OTHERS, 500, 1), len(WORDS)
    else:
        data = recorded(given.recordings)
    print(report(main(*data, epochs=8, seeds=given.seeds), ["top1", "loss"], given.out))
