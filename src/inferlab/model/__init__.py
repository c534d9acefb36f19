"""Tokens in, logits out: configuration, tokenizer, weights and the network. Owns no cache."""
