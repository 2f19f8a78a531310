"""Kernels of flash-linear-attention, forward and backward, compared with recurrences in torch."""

# mypy: ignore-errors
import torch
from fla.ops.delta_rule import fused_recurrent_delta_rule
from fla.ops.hgrn import fused_recurrent_hgrn
from fla.ops.linear_attn import fused_recurrent_linear_attn

BATCH, TIME, HEADS, SIZE = 2, 11, 2, 32


def linear_attention(q, k, v):
    """Attention without a softmax: each position attends to itself and to all earlier ones."""
    weights = torch.einsum("bihd,bjhd->bhij", q, k).tril() * SIZE**-0.5
    return torch.einsum("bhij,bjhd->bihd", weights, v)


def delta_rule(q, k, v, beta):
    """Linear attention whose state forgets the old value of a key before it stores the new one."""
    state, outputs = q.new_zeros(BATCH, HEADS, SIZE, SIZE), []
    for t in range(TIME):
        error = v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], state)
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], error * beta[:, t, :, None])
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state) * SIZE**-0.5)
    return torch.stack(outputs, 1)


def gated_recurrence(x, gate):
    state, outputs = torch.zeros_like(x[:, 0]), []
    for t in range(TIME):
        state = state * gate[:, t].exp() + x[:, t]
        outputs.append(state)
    return torch.stack(outputs, 1)


def compare(function, reference, *arguments):
    """Compare the result and the gradients of a function with a reference."""
    arguments = [argument.requires_grad_() for argument in arguments]
    copies = [argument.detach().clone().requires_grad_() for argument in arguments]
    result, expected = function(*arguments), reference(*copies)
    torch.testing.assert_close(result, expected, atol=1e-4, rtol=1e-4)
    gradient = torch.randn_like(expected)
    result.backward(gradient)
    expected.backward(gradient)
    for argument, copy in zip(arguments, copies, strict=True):
        torch.testing.assert_close(argument.grad, copy.grad, atol=1e-3, rtol=1e-3)


if __name__ == "__main__":
    torch.manual_seed(0)
    q, k, v = (torch.randn(BATCH, TIME, HEADS, SIZE, device="cuda") for _ in range(3))
    compare(lambda q, k, v: fused_recurrent_linear_attn(q, k, v, normalize=False)[0], linear_attention, q, k, v)
    q, k, v = (torch.randn(BATCH, TIME, HEADS, SIZE, device="cuda") for _ in range(3))
    k, beta = torch.nn.functional.normalize(k, dim=-1), torch.rand(BATCH, TIME, HEADS, device="cuda")
    compare(lambda *each: fused_recurrent_delta_rule(*each)[0], delta_rule, q, k, v, beta)
    x, gate = (torch.randn(BATCH, TIME, SIZE, device="cuda") for _ in range(2))
    gate = torch.nn.functional.logsigmoid(gate)
    compare(lambda x, gate: fused_recurrent_hgrn(x, gate)[0], gated_recurrence, x, gate)
