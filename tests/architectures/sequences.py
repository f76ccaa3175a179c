"""Networks on sequences and sets: speech, sound, points."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import binaryduo as bd
from tests.architectures.registry import image, published

Act, BConv1, BConv2, BLinear = bd.nn.QuantAct, bd.nn.BinaryConv1d, bd.nn.BinaryConv2d, bd.nn.BinaryLinear


class TCBlock(nn.Module):
    """Two convolutions over time, 9 wide, and a projected shortcut where the length halves."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = BConv1(before, after, 9, stride, padding=4, bias=False)
        self.bn1, self.act1 = nn.BatchNorm1d(after), Act()
        self.conv2, self.bn2 = BConv1(after, after, 9, padding=4, bias=False), nn.BatchNorm1d(after)
        self.act2, self.shortcut = Act(), nn.Sequential()
        if stride != 1:
            self.shortcut = nn.Sequential(
                nn.Conv1d(before, after, 1, stride, bias=False), nn.BatchNorm1d(after), Act()
            )

    def forward(self, x: Tensor) -> Tensor:
        out = self.act1(self.bn1(self.conv1(x)))
        return self.act2(self.bn2(self.conv2(out)) + self.shortcut(x))


class TCResNet(nn.Module):
    def __init__(self, bins: int = 20) -> None:
        super().__init__()
        self.conv0, self.act0 = nn.Conv1d(bins, 16, 3, padding=1, bias=False), Act()
        self.bn0 = nn.BatchNorm1d(16)
        self.layers = nn.Sequential(TCBlock(16, 24, 2), TCBlock(24, 24, 1))
        self.linear = nn.Linear(24, 6)

    def forward(self, x: Tensor) -> Tensor:
        out = self.layers(self.act0(self.bn0(self.conv0(x))))
        out = F.avg_pool1d(out, out.shape[2])
        return self.linear(out.view(out.shape[0], -1))


@published("TC-ResNet8", "Choi et al., Interspeech 2019", "convolutions over time on MFCCs")
def tc_resnet() -> tuple[nn.Module, Tensor]:
    return TCResNet(), torch.randn(4, 20, 24)


class M5(nn.Module):
    """On raw samples: a wide first layer, then pools by four."""

    def __init__(self, classes: int = 6, width: int = 16) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(1, width, kernel_size=80, stride=8), nn.BatchNorm1d(width)
        self.conv2, self.bn2 = BConv1(width, width, kernel_size=3), nn.BatchNorm1d(width)
        self.conv3, self.bn3 = BConv1(width, 2 * width, kernel_size=3), nn.BatchNorm1d(2 * width)
        self.pool1, self.pool2, self.pool3 = nn.MaxPool1d(4), nn.MaxPool1d(4), nn.MaxPool1d(2)
        self.act1, self.act2, self.act3 = Act(), Act(), Act()
        self.fc1 = nn.Linear(2 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool1(self.act1(self.bn1(self.conv1(x))))
        x = self.pool2(self.act2(self.bn2(self.conv2(x))))
        x = self.pool3(self.act3(self.bn3(self.conv3(x))))
        x = F.avg_pool1d(x, x.shape[-1])
        x = x.permute(0, 2, 1)
        x = self.fc1(x)
        return F.log_softmax(x, dim=2)


@published("M5", "Dai et al., ICASSP 2017; PyTorch's tutorial", "raw sound, permute, log_softmax")
def m5() -> tuple[nn.Module, Tensor]:
    return M5(), torch.randn(4, 1, 1600)


class DSCNN(nn.Module):
    """Keyword spotting on a microcontroller: a window over time and frequency, separable layers."""

    def __init__(self, width: int = 24, classes: int = 6) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, (10, 4), stride=(2, 2), padding=(4, 1), bias=False)
        self.bn1, self.act1, self.drop = nn.BatchNorm2d(width), Act(), nn.Dropout(0.2)
        parts: list[nn.Module] = []
        for _ in range(2):
            parts += [nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False)]
            parts += [nn.BatchNorm2d(width), Act(), BConv2(width, width, 1, bias=False)]
            parts += [nn.BatchNorm2d(width), Act()]
        self.blocks, self.fc = nn.Sequential(*parts), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.drop(self.act1(self.bn1(self.conv1(x)))))
        x = F.avg_pool2d(x, x.size()[2:])
        return self.fc(x.squeeze(-1).squeeze(-1))


@published("DS-CNN", "Zhang et al., 2017", "a (10, 4) window, separable layers, squeezed")
def ds_cnn() -> tuple[nn.Module, Tensor]:
    return DSCNN(), torch.randn(4, 1, 25, 10)


class Chomp(nn.Module):
    """Cuts what padding has put behind the sequence, so that nothing looks ahead."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.chomp_size = size

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, : -self.chomp_size].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, before: int, after: int, dilation: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(before, after, 3, padding=2 * dilation, dilation=dilation)
        self.chomp, self.bn, self.act, self.dropout = (
            Chomp(2 * dilation),
            nn.BatchNorm1d(after),
            Act(),
            nn.Dropout(0.2),
        )
        self.downsample = nn.Conv1d(before, after, 1) if before != after else None
        self.last = nn.PReLU()

    def forward(self, x: Tensor) -> Tensor:
        out = self.dropout(self.act(self.bn(self.chomp(self.conv(x)))))
        return self.last(out + (x if self.downsample is None else self.downsample(x)))


class TCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(TemporalBlock(8, 16, 1), TemporalBlock(16, 16, 2))
        self.linear = nn.Linear(16, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.network(x)[:, :, -1])


@published("TCN", "Bai et al., 2018", "causal, dilated convolutions, the last step")
def tcn() -> tuple[nn.Module, Tensor]:
    return TCN(), torch.randn(4, 8, 24)


class ConvGRU(nn.Module):
    """Deep Speech's plan, small: a one-bit front end, a recurrent layer in float, the last step."""

    def __init__(self, classes: int = 6) -> None:
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=(1, 2), padding=1, bias=False),
            nn.BatchNorm2d(16),
            Act(),
            BConv2(16, 16, 3, stride=(1, 2), padding=1, bias=False),
            nn.BatchNorm2d(16),
            Act(),
        )
        self.gru, self.fc = nn.GRU(16 * 3, 24, batch_first=True), nn.Linear(24, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.front(x).permute(0, 2, 1, 3).flatten(2)  # (N, T, C * F)
        out, _ = self.gru(x)
        return self.fc(out[:, -1])


@published("Convolutions and a GRU", "Amodei et al., ICML 2016", "a recurrent layer after binary ones")
def conv_gru() -> tuple[nn.Module, Tensor]:
    return ConvGRU(), torch.randn(4, 1, 6, 12)


class PointNet(nn.Module):
    """Each point by itself, then the largest value over all points."""

    def __init__(self, classes: int = 6) -> None:
        super().__init__()
        self.conv1, self.bn1, self.act1 = nn.Conv1d(3, 24, 1), nn.BatchNorm1d(24), Act()
        self.conv2, self.bn2, self.act2 = BConv1(24, 32, 1), nn.BatchNorm1d(32), Act()
        self.conv3, self.bn3 = BConv1(32, 48, 1), nn.BatchNorm1d(48)
        self.fc1, self.bn4, self.act4 = nn.Linear(48, 32), nn.BatchNorm1d(32), Act()
        self.fc2 = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act2(self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x))))))
        x = self.bn3(self.conv3(x))
        x = torch.max(x, 2, keepdim=True)[0]
        x = x.view(-1, 48)
        return self.fc2(self.act4(self.bn4(self.fc1(x))))


@published("PointNet", "Qi et al., CVPR 2017; Xia's code", "a maximum over all points")
def pointnet() -> tuple[nn.Module, Tensor]:
    return PointNet(), torch.randn(4, 3, 20)


class Keywords(nn.Module):
    """A spectrogram as an image, and two kinds of pooling over time side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            Act(),
            BConv2(16, 24, 3, padding=1, bias=False),
            nn.BatchNorm2d(24),
        )
        self.fc1, self.bn, self.act, self.fc2 = nn.Linear(48, 32), nn.BatchNorm1d(32), Act(), nn.Linear(32, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        x = torch.cat([torch.amax(x, dim=(2, 3)), torch.mean(x, dim=(2, 3))], dim=1)
        return self.fc2(self.act(self.bn(self.fc1(x))))


@published("CNN14-style audio tagger", "Kong et al., TASLP 2020", "maximum and mean pooled, concatenated")
def audio_tagger() -> tuple[nn.Module, Tensor]:
    return Keywords(), image(12, channels=1)
