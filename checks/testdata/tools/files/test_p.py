import pytest


def test_a():
    assert 1 + 1 == 3


class TestB:
    @pytest.mark.parametrize("n", [1, 2])
    def test_b(self, n):
        raise ValueError(f"no {n}")


def test_ok():
    pass
