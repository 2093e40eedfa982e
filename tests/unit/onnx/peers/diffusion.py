# SPDX-License-Identifier: MIT OR Apache-2.0
"""A small U-Net as diffusion has it: residual blocks that know the time, attention among pixels and to a text."""
import torch
from torch import nn
from torch.nn import functional

TIME, TEXT = 128, 48


class Residual(nn.Module):
    def __init__(self, given, made):
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(8, given), nn.GroupNorm(8, made)])
        self.first, self.second = nn.Conv2d(given, made, 3, padding=1), nn.Conv2d(made, made, 3, padding=1)
        self.time, self.aside = nn.Linear(TIME, made), nn.Conv2d(given, made, 1)

    def forward(self, x, time):
        y = self.first(functional.silu(self.norms[0](x)))
        y = y + self.time(functional.silu(time))[:, :, None, None]
        return self.second(functional.silu(self.norms[1](y))) + self.aside(x)


class Mixed(nn.Module):
    def __init__(self, size, other, heads=4):
        super().__init__()
        self.heads, self.out = heads, nn.Linear(size, size)
        self.q, self.k, self.v = (nn.Linear(n, size, bias=False) for n in (size, other, other))

    def forward(self, x, other):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2)
                   for part in (self.q(x), self.k(other), self.v(other)))
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Spatial(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.GroupNorm(8, size, eps=1e-6)
        self.into, self.out = nn.Conv2d(size, size, 1), nn.Conv2d(size, size, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(3))
        self.own, self.cross = Mixed(size, size), Mixed(size, TEXT)
        self.wide, self.narrow = nn.Linear(size, 8 * size), nn.Linear(4 * size, size)

    def forward(self, x, text):
        y = self.into(self.norm(x)).flatten(2).transpose(1, 2)
        z = self.norms[0](y)
        y = y + self.own(z, z)
        y = y + self.cross(self.norms[1](y), text)
        up, gate = self.wide(self.norms[2](y)).chunk(2, dim=-1)
        y = y + self.narrow(up * functional.gelu(gate))
        return x + self.out(y.transpose(1, 2).unflatten(2, x.shape[2:]))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, TIME), nn.SiLU(), nn.Linear(TIME, TIME))
        self.into, self.out = nn.Conv2d(4, 32, 3, padding=1), nn.Conv2d(32, 4, 3, padding=1)
        self.down, self.up = nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.Conv2d(64, 64, 3, padding=1)
        self.blocks = nn.ModuleList([Residual(32, 32), Residual(32, 64), Residual(64, 64), Residual(96, 32)])
        self.looks = nn.ModuleList([Spatial(32), Spatial(64), Spatial(32)])
        self.norm = nn.GroupNorm(8, 32)

    def forward(self, x, steps, text):
        angles = steps[:, None].float() * torch.exp(-torch.arange(16, dtype=torch.float32) * (9.21 / 16))
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        wide = self.looks[0](self.blocks[0](self.into(x), time), text)
        y = self.looks[1](self.blocks[1](self.down(wide), time), text)
        y = self.up(functional.interpolate(self.blocks[2](y, time), scale_factor=2.0, mode="nearest"))
        y = self.looks[2](self.blocks[3](torch.cat([y, wide], 1), time), text)
        return self.out(functional.silu(self.norm(y)))


def make():
    return UNet(), (torch.randn(2, 4, 16, 16), torch.tensor([7, 431]), torch.randn(2, 9, TEXT))
