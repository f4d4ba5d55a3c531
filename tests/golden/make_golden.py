#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden numbers of every layer, forward and backward, from JAX in float64.

Run once, in an environment of its own; neither building nor testing needs Python:

    python3 -m venv venv && venv/bin/pip install jax numpy && venv/bin/python make_golden.py

Writes one text file a layer beside this script. A line is an array: name, size, numbers.
The gradients are JAX's own (vjp); the layers are JAX's where it has them.
"""
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
here = pathlib.Path(__file__).parent
random = np.random.default_rng(20240607)


def numbers(*shape, scale=1.0, mean=0.0):
    return jnp.asarray(np.round(random.normal(mean, scale, shape), 6))  # short to write down


def write(layer, **arrays):
    with open(here / f"{layer}.txt", "w") as out:
        out.write(f"# {layer}: JAX {jax.__version__}, float64, by make_golden.py\n")
        for name, array in arrays.items():
            flat = np.asarray(array).reshape(-1)
            text = " ".join(repr(float(x)) if flat.dtype.kind == "f" else str(int(x)) for x in flat)
            out.write(f"{name} {flat.size} {text}\n")


def linear():  # rows 5, in 7, out 6
    x, w, bias, dy = numbers(5, 7), numbers(6, 7), numbers(6), numbers(5, 6)
    y, back = jax.vjp(lambda x, w, bias: x @ w.T + bias, x, w, bias)
    dx, dw, dbias = back(dy)
    write("linear", x=x, w=w, bias=bias, dy=dy, y=y, dx=dx, dw=dw, dbias=dbias)


def gelu():
    x, dy = jnp.concatenate([numbers(60, scale=2), jnp.array([0.0, -8.0, 8.0, 1e-3])]), numbers(64)
    y, back = jax.vjp(lambda x: jax.nn.gelu(x, approximate=True), x)
    write("gelu", x=x, dy=dy, y=y, dx=back(dy)[0])


def layernorm():  # rows 4, channels 37
    x, dy = numbers(4, 37, mean=0.3), numbers(4, 37)
    gamma, beta = numbers(37, scale=0.5, mean=1), numbers(37)
    y, back = jax.vjp(lambda x, gamma, beta: jax.nn.standardize(x, epsilon=1e-5) * gamma + beta,
                      x, gamma, beta)
    dx, dgamma, dbeta = back(dy)
    write("layernorm", x=x, gamma=gamma, beta=beta, dy=dy, y=y, dx=dx, dgamma=dgamma, dbeta=dbeta)


def embedding():  # B 2, T 5, C 4, V 7, wpe of 8 positions
    tokens = random.integers(0, 7, (2, 5))
    wte, wpe, dy = numbers(7, 4), numbers(8, 4), numbers(2, 5, 4)
    y, back = jax.vjp(lambda wte, wpe: wte[tokens] + wpe[:5], wte, wpe)
    dwte, dwpe = back(dy)
    write("embedding", tokens=tokens, wte=wte, wpe=wpe, dy=dy, y=y, dwte=dwte, dwpe=dwpe)


def attention():  # T 67, 4 query heads, 2 key/value heads, D 3; causal
    B, T, H, K, D = 1, 67, 4, 2, 3

    def forward(qkv):
        q = qkv[..., : H * D].reshape(B, T, H, D)
        k = qkv[..., H * D : (H + K) * D].reshape(B, T, K, D).repeat(H // K, axis=2)
        v = qkv[..., (H + K) * D :].reshape(B, T, K, D).repeat(H // K, axis=2)
        scores = jnp.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(D)
        scores = jnp.where(jnp.tril(jnp.ones((T, T), bool)), scores, -jnp.inf)
        out = jnp.einsum("bhij,bjhd->bihd", jax.nn.softmax(scores, axis=-1), v)
        return out.reshape(B, T, H * D), jax.nn.logsumexp(scores, axis=-1)

    qkv, dout = numbers(B, T, (H + 2 * K) * D), numbers(B, T, H * D)
    out, back, lse = jax.vjp(forward, qkv, has_aux=True)
    # JAX's own attention agrees (it takes the softmax in float32)
    q, k, v = (x.reshape(B, T, -1, D) for x in jnp.split(qkv, [H * D, (H + K) * D], axis=-1))
    own = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(B, T, H * D)
    assert jnp.max(jnp.abs(own - out)) < 1e-5
    write("attention", qkv=qkv, dout=dout, out=out, lse=lse, dqkv=back(dout)[0])


def cross_entropy():  # rows 6, V 17; two targets ignored
    logits, seed = numbers(6, 17, scale=2), 0.25
    targets = np.array([3, -100, 16, 0, -1, 9])

    def loss(logits):
        picked = jax.nn.log_softmax(logits, axis=-1)[jnp.arange(6), jnp.maximum(targets, 0)]
        return jnp.where(targets >= 0, -picked, 0)

    losses, back = jax.vjp(loss, logits)
    lse = jax.nn.logsumexp(logits, axis=-1)
    write("cross_entropy", logits=logits, targets=targets, losses=losses, lse=lse,
          dlogits=back(jnp.full(6, seed))[0])


for layer in (linear, gelu, layernorm, embedding, attention, cross_entropy):
    layer()
