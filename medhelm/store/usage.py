"""Sum what the responses of one model used."""

from __future__ import annotations

from collections import Counter

from medhelm.schema.episode import Response
from medhelm.schema.run import UsageTotals


class UsageTally:
    """Sums tokens; what the endpoint did not report is counted as unknown, never as 0."""

    def __init__(self, output_limit: int) -> None:
        self._output_limit = output_limit
        self._tokens: Counter[str] = Counter()
        self._served: Counter[str] = Counter()
        self.served_at: Counter[str] = Counter()
        """The models as served behind the address that answered, of a model with several."""

    def add(self, response: Response, *, is_sent: bool = True) -> None:
        """Count a response; `is_sent`: False for a rule that was handed the instance itself."""
        self._tokens["lost"] += response.lost
        if not is_counted(response):
            return
        served = (response.served_model, response.fingerprint)
        name = " ".join(filter(None, served)) or "not reported"
        self._served[name] += 1
        if response.address:
            self.served_at[f"{response.address} {name}"] += 1
        if not is_sent:
            return
        usage = response.usage
        self._tokens["requests"] += 1
        self._tokens["output_limit_tokens"] += self._output_limit
        if usage.input_tokens is None or usage.output_tokens is None:
            self._tokens["unknown"] += 1
        for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"):
            self._tokens[name] += getattr(usage, name) or 0
            if response.price_class and f"batch_{name}" in UsageTotals.__struct_fields__:
                self._tokens[f"batch_{name}"] += getattr(usage, name) or 0

    def add_lost(self, answers: int) -> None:
        """Count answers that were lost in tries that others have replaced."""
        self._tokens["lost"] += answers

    def totals(self) -> UsageTotals:
        """Return the sums."""
        return UsageTotals(**self._tokens)

    def served_models(self) -> dict[str, int]:
        """Return the models as served, with the number of their responses."""
        return dict(sorted(self._served.items()))


def is_counted(response: Response) -> bool:
    """Return whether anything came back that may be billed."""
    return response.finish not in ("error", "oversize") or response.usage.input_tokens is not None
