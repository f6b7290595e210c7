"""Fields of request bodies that OpenAI's API does not know, and others that speak its dialect do.

Few of them have an effect here; all are accepted.
"""

_ENGINES = """
    min_tokens ignore_eos priority top_k min_p top_a repetition_penalty length_penalty early_stopping use_beam_search
    best_of stop_token_ids include_stop_str_in_output skip_special_tokens spaces_between_special_tokens no_stop_trim
    truncate_prompt_tokens prompt_logprobs allowed_token_ids bad_words echo add_generation_prompt add_special_tokens
    continue_final_message chat_template chat_template_kwargs documents mm_processor_kwargs guided_json guided_regex
    guided_choice guided_grammar guided_decoding_backend guided_whitespace_pattern structured_outputs regex ebnf
    structural_tag request_id return_token_ids return_tokens_as_token_ids logits_processors kv_transfer_params
    vllm_xargs cache_salt include_reasoning separate_reasoning stream_reasoning lora_path session_params
"""  # vLLM, SGLang
_LOCAL = """
    mirostat mirostat_tau mirostat_eta typical_p tfs_z repeat_penalty repeat_last_n n_predict n_keep cache_prompt
    grammar json_schema samplers id_slot timings_per_token dynatemp_range xtc_probability dry_multiplier options
    keep_alive format think num_ctx
"""  # llama.cpp, Ollama
_ROUTERS = """
    provider models route transforms plugins reasoning thinking enable_thinking thinking_budget usage preset caching
    litellm_call_id litellm_metadata litellm_params custom_llm_provider api_key api_base drop_params num_retries
    fallbacks tags mock_response search_parameters safe_prompt random_seed reasoning_format citations extra_body
    extra_headers extra_query timeout speed betas
"""  # OpenRouter, LiteLLM, and providers that they pass parameters on to

EXTENSIONS = frozenset(f"{_ENGINES} {_LOCAL} {_ROUTERS}".split())
