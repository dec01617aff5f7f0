/* The files of endpoints, in the order of docs/serve.md: ENDPOINTS(name) for mc_endpoints_<name>.
 * Include this file with ENDPOINTS defined; it is undefined at the end. */
ENDPOINTS(openai_chat)
ENDPOINTS(openai_text)
ENDPOINTS(responses)
ENDPOINTS(embeddings)
ENDPOINTS(openai_files)
ENDPOINTS(openai_batches)
ENDPOINTS(anthropic)
ENDPOINTS(ollama)
ENDPOINTS(llama_server)
ENDPOINTS(models)
ENDPOINTS(own)
ENDPOINTS(scores)
ENDPOINTS(classes)
ENDPOINTS(health)
ENDPOINTS(page)
ENDPOINTS(metrics)
#undef ENDPOINTS
