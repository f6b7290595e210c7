"""What an architecture costs to run: weights, attention and KV shape. Knows no hardware, no product."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A transformer, dense or mixture-of-experts, as the quantities a step time depends on.

    Parameters and state are counted in elements, attention in FLOP. For a dense model `expert_layers` is 0 and the
    other expert fields do not matter.
    """

    name: str
    layers: int
    hidden: int
    dense_params: float  # read in every step: attention, norms, routers, shared experts, output head
    embedding_params: float  # input embedding: held, not read; also the size of a draft's output head
    kv_per_token: float  # KV elements kept for each context token, all layers
    kv_heads: int  # 1 for multi-head latent attention: tensor parallelism replicates its cache
    attention_flops: float  # for each pair of a query and a context token, all layers
    expert_params: float = 0.0  # one expert in one layer
    expert_layers: int = 0
    experts: int = 1  # in one layer
    experts_active: int = 1  # chosen for a token in one layer
    window: int = 0  # context tokens that layers with windowed attention keep
    window_kv_per_token: float = 0.0  # KV elements of those layers for each token in the window
    state: float = 0.0  # recurrent state elements for each sequence
    sparse_topk: int = 0  # context tokens a query attends to; 0: all of them
    indexer_kv_per_token: float = 0.0  # elements the selector of sparse attention keeps for each context token

    @property
    def total_params(self) -> float:
        return self.dense_params + self.embedding_params + self.expert_params * self.expert_layers * self.experts

    @property
    def active_params(self) -> float:
        """Parameters multiplied with each token."""
        return self.dense_params + self.expert_params * self.expert_layers * self.experts_active
