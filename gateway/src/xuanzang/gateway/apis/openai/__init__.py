"""OpenAI's chat completions and responses, as far as a translation is one."""
