"""What a catalog sells as a price list for LiteLLM, which `litellm.register_model` takes: dollars per token.

The keys are those of LiteLLM's model_prices_and_context_window.json. Of OpenAI's tiers it looks prices up by what an
answer says served it, of Anthropic's fast mode by a factor on all prices. A tier that LiteLLM has no word for, such as
spark under the name of the full model, it prices as the model's default one.
"""

from typing import Any

from service.offers import NANODOLLARS_PER_DOLLAR, Offer, ServedModel
from service.prices import Price
from service.tiers import Catalog

SUFFIXES = {"priority": "_priority", "fast": "_priority", "flex": "_flex", "ultrafast": "_ultrafast"}  # by service_tier


def litellm(catalog: Catalog) -> dict[str, dict[str, Any]]:
    """An entry for each model and for each alias of one."""
    listed = {served.id: _entry(catalog, served) for served in catalog.models.values()}
    return {**listed, **{alias: listed[name] for alias, name in catalog.aliases.items()}}


def _entry(catalog: Catalog, served: ServedModel) -> dict[str, Any]:
    default = served.offers[served.default_tier]
    longer = "1hr" if served.owned_by == "anthropic" else "12hr"  # what each calls the longer of its two times
    entry = {
        "litellm_provider": served.owned_by,
        "mode": "chat",
        "max_input_tokens": default.context_window,
        "max_output_tokens": default.max_output,
        "max_tokens": default.max_output,
        "supports_function_calling": True,
        "supports_parallel_function_calling": True,
        "supports_prompt_caching": True,
        "supports_response_schema": True,
        "supports_system_messages": True,
        "supports_tool_choice": True,
        "supports_vision": "image" in default.modalities,
        **_costs(default.price, "", longer),
    }
    for offer in served.offers.values():
        if offer is not default and offer.reported_as in SUFFIXES:
            entry |= _costs(offer.price, SUFFIXES[offer.reported_as], longer, default.price.above)
    return entry | (_of_anthropic(catalog, served, default) if served.owned_by == "anthropic" else {})


def _of_anthropic(catalog: Catalog, served: ServedModel, default: Offer) -> dict[str, Any]:
    family = catalog.families[served.family] if served.family is not None else None
    fast = next((offer for offer in served.offers.values() if offer.reported_as == "fast"), None)
    return {
        "prompt_cache_min_tokens": served.cacheable,
        "supports_assistant_prefill": family is None or family.prefill,
        "supports_sampling_params": family is None or family.sampling == "any",
        "supports_adaptive_thinking": family is None or "adaptive" in family.thinking,
        "supports_speed": fast is not None,
        "supports_fast_mode": fast is not None,
        "provider_specific_entry": {
            **{region: float(times) for region, times in served.regions.items()},
            **({"fast": fast.price.output / default.price.output} if fast is not None else {}),
        },
    }


def _costs(price: Price, suffix: str, longer: str, above: int = 0) -> dict[str, float]:
    """`above`: where the default tier's price has a step, which LiteLLM takes for every tier's if that says nothing."""
    costs = {f"{key}{suffix}": value for key, value in _rates(price, longer).items()}
    if price.above or above:
        step = f"_above_{(price.above or above) // 1000}k_tokens{suffix}"
        costs |= {f"{key}{step}": value for key, value in _rates(price.long or price, longer).items()}
    return costs


def _rates(price: Price, longer: str) -> dict[str, float]:
    return {
        "input_cost_per_token": price.input / NANODOLLARS_PER_DOLLAR,
        "cache_read_input_token_cost": price.cached_input / NANODOLLARS_PER_DOLLAR,
        "cache_creation_input_token_cost": price.written / NANODOLLARS_PER_DOLLAR,
        f"cache_creation_input_token_cost_above_{longer}": price.written_long / NANODOLLARS_PER_DOLLAR,
        "output_cost_per_token": price.output / NANODOLLARS_PER_DOLLAR,
    }
