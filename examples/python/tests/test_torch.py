"""docs/torch.md: its pieces of Python are one program, which must print what the page says."""

import contextlib
import io
import sys
import unittest
from pathlib import Path

from common import raises

PAGE = Path(__file__).resolve().parents[3] / "docs" / "torch.md"

try:
    import torch
except ImportError as _error:
    raise unittest.SkipTest(f"docs/torch.md needs PyTorch: {_error}") from None

if not PAGE.is_file():
    raise unittest.SkipTest(f"{PAGE} is not here: these tests are run in the source tree")


def pieces():
    """The indented pieces of the page as pairs (is it what is printed, its text)."""
    found = []
    told = ""
    block = []
    for line in PAGE.read_text().splitlines() + ["end"]:
        if line.startswith("    ") or (block and not line):
            block.append(line[4:])
            continue
        if block:
            found.append((told == "prints", "\n".join(block).rstrip() + "\n"))
            block = []
        told = line or told
    return found


def test_the_page_prints_what_it_says():
    torch.set_num_threads(1)
    scope = {}
    printed = io.StringIO()
    expected = ""
    count = 0
    for is_output, text in pieces():
        if is_output:
            expected += text
            assert printed.getvalue() == expected, f"printed:\n{printed.getvalue()}\nthe page says:\n{expected}"
            count += 1
        else:
            with contextlib.redirect_stdout(printed):
                exec(compile(text, str(PAGE), "exec"), scope)
    assert count == 3


def test_a_wrong_gradient_is_found():
    scope = {}
    code = [text for is_output, text in pieces() if not is_output]
    exec(code[0].replace("of_result * ctx.gradient", "of_result * ctx.gradient * 1.01"), scope)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(code[1], scope)
        except Exception as error:
            assert "Jacobian mismatch" in str(error)
            return
    raise AssertionError("gradcheck let a wrong gradient pass")


def test_what_else_the_page_says_of_the_function():
    scope = {}
    code = [text for is_output, text in pieces() if not is_output]
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code[0] + code[1], scope)
    f, handle, theta = scope["negative_log_likelihood"], scope["handle"], scope["theta"]
    value = f(theta, handle)
    assert float(value) == float(f(theta.detach(), handle))
    (3 * value).backward()
    assert torch.allclose(theta.grad, 3 * torch.from_numpy(handle.gradient(theta.detach().numpy())))
    assert f(theta.float(), handle).dtype == torch.float32
    raises(RuntimeError, "second derivative", lambda: torch.autograd.grad(f(theta, handle), theta, create_graph=True))
    scope["handle"].data(scope["y"][:5])
    before = float(value)
    assert float(f(theta, handle)) != before


if __name__ == "__main__":
    import run

    sys.argv[1:] = ["torch"]
    run.main()
