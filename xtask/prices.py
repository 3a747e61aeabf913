#!/usr/bin/env python3
"""Makes crates/cli/data/prices.toml from the price file inside PyPI's `litellm` wheel.

    pip download litellm --no-deps -d WHEELS
    make_prices.py WHEELS/litellm-*.whl 2026-11-21 > crates/cli/data/prices.toml

Only first-party text models of three vendors are taken. Nothing is guessed: a model that the file does not list
has no price. Standard library only; equal input gives equal output.
"""
import json
import re
import sys
import zipfile
from decimal import Decimal

MEMBER = "litellm/model_prices_and_context_window_backup.json"
# Vendor in the file -> modes taken. OpenAI's Codex models are listed under "responses".
VENDORS = {"anthropic": {"chat"}, "openai": {"chat", "responses"}, "gemini": {"chat"}}

HEADER = """\
# Prices of models in picodollars (10^-12 USD) a token. Made by a script; do not edit by hand.
#
# Source: PyPI package litellm {version}, file {member}; taken {date}.
# Taken:  first-party text models of Anthropic, OpenAI and Google (Gemini API), by the vendor's own model name
#         (the prefix "gemini/" is cut off); no fine-tunes, no models whose text tokens are not priced.
# Rules:  cache_write_1h, where the source has none: Anthropic 2 x input (its documented rule).
#         Other vendors: a cache price that the source does not have is left out, and the cost of tokens that need it
#         is unknown (≥).
#         Standard tier only: batch, priority and regional prices are left out, and so are the higher prices of long
#         contexts, which the source has for:{tiered}.
"""


def pico(value):
    """Dollars a token -> whole picodollars; the file's floats are read as decimals, so nothing is lost."""
    scaled = Decimal(value) * 10**12
    whole = int(scaled.to_integral_value())
    if whole != scaled:
        print(f"rounded {value}", file=sys.stderr)
    return whole


def prices(entry):
    """The prices of one entry by kind of token, or None where text tokens are not priced."""
    cost = lambda name: None if entry.get(name) is None else pico(entry[name])
    fresh, output = cost("input_cost_per_token"), cost("output_cost_per_token")
    if not fresh or not output:
        return None
    read = cost("cache_read_input_token_cost")
    write = cost("cache_creation_input_token_cost")
    hour = cost("cache_creation_input_token_cost_above_1hr")
    if entry["litellm_provider"] == "anthropic":
        if read is None or write is None:
            return None
        hour = 2 * fresh if hour is None else hour
    found = {"input": fresh, "output": output, "cache_read": read, "cache_write": write, "cache_write_1h": hour}
    return {kind: price for kind, price in found.items() if price is not None}


def main():
    wheel, date = sys.argv[1:]
    version = re.search(r"litellm-([0-9][^-]*)-", wheel).group(1)
    with zipfile.ZipFile(wheel) as archive:
        table = json.loads(archive.read(MEMBER), parse_float=str)
    models, tiered = {}, set()
    for key, entry in table.items():
        vendor = entry.get("litellm_provider")
        if entry.get("mode") not in VENDORS.get(vendor, ()):
            continue
        name = key.split("/", 1)[1] if key.startswith(f"{vendor}/") else key
        if "/" in name or ":" in name:
            continue  # regional copies and fine-tunes
        found = prices(entry)
        if found is None:
            continue
        if models.setdefault(vendor, {}).setdefault(name, found) != found:
            sys.exit(f"two prices for {name}")
        if any(field.startswith("input_cost_per_token_above_") for field in entry):
            tiered.add(name)
    for name in [name for name in models["anthropic"] if re.search(r"-\d{8}$", name)]:
        models["anthropic"].setdefault(name[:-9], models["anthropic"][name])
    words, lines = ", ".join(sorted(tiered)), [""]
    for word in (words or "none").split(" "):
        if len(lines[-1]) + len(word) > 100:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    print(HEADER.format(version=version, member=MEMBER, date=date, tiered="\n#         ".join(["", *lines])), end="")
    print(f'\nsource = "litellm {version} (PyPI)"\ndate = "{date}"\n\n[models]')
    for vendor in VENDORS:
        print(f"# {vendor}")
        for name, price in sorted(models[vendor].items()):
            fields = ", ".join(f"{field} = {value}" for field, value in price.items())
            print(f"{json.dumps(name)} = {{ {fields} }}")


main()
