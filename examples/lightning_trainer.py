"""Lightning's own Trainer for both stages: couple, train, decouple, fine-tune.

    python examples/lightning_trainer.py

`couple` and `decouple` take and return plain modules, so that they stand between two calls of Trainer.fit. It takes
about a minute on two cores.
"""

import lightning as L
import torch
from custom_model import MyNet, loader
from torch import nn
from torch.utils.data import DataLoader

import binaryduo as bd


class Classifier(L.LightningModule):
    """Trains any network of images to classes; nothing in it knows about bits."""

    def __init__(self, network: nn.Module, lr: float) -> None:
        super().__init__()
        self.network, self.lr = network, lr
        self.correct = self.seen = 0

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self.network(images), labels)

    def on_validation_epoch_start(self) -> None:
        self.correct = self.seen = 0

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        images, labels = batch
        self.correct += int((self.network(images).argmax(1) == labels).sum())
        self.seen += len(labels)

    def on_validation_epoch_end(self) -> None:
        self.log("accuracy", 100 * self.correct / self.seen)

    def on_train_end(self) -> None:
        bd.nn.clip_latent_weights(self.network)  # one-bit layers keep their latent weights within [-1, 1]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


def stage(network: nn.Module, lr: float, train: DataLoader, test: DataLoader, epochs: int) -> float:
    """One training by Lightning; returns the accuracy in percent."""
    trainer = L.Trainer(
        max_epochs=epochs,
        accelerator="auto",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
    )
    trainer.fit(Classifier(network, lr), train, test)
    return float(trainer.callback_metrics["accuracy"])


def main(count: int = 10_000, epochs: int = 2) -> tuple[float, float]:
    data = bd.data.load("fashion-mnist-small")
    train, test = loader(data.train, count, True), loader(data.test, 2_000, False)
    x = next(iter(test))[0][:32]
    L.seed_everything(0, verbose=False)

    coupled = bd.couple(MyNet(), x)  # narrower, with three levels
    first = stage(coupled, 3e-3, train, test, epochs)
    binary = bd.decouple(coupled.eval(), x)  # the same function with bits
    print(binary.decoupling)
    return first, stage(binary, 1.5e-3, train, test, epochs)


if __name__ == "__main__":
    print("coupled {:.2f} %, decoupled and fine-tuned {:.2f} %".format(*main()))
