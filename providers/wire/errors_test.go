package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
)

// TestClassify is a table of what services really say, each in its own form.
func TestClassify(t *testing.T) {
	const (
		overloaded = protocol.ErrorOverloaded
		rate       = protocol.ErrorRateLimit
		server     = protocol.ErrorServer
		network    = protocol.ErrorNetwork
		quota      = protocol.ErrorQuota
		auth       = protocol.ErrorAuth
		overflow   = protocol.ErrorOverflow
		invalid    = protocol.ErrorInvalid
		refusal    = protocol.ErrorRefusal
	)
	for _, c := range []struct {
		vendor string
		status int
		body   string
		want   protocol.ErrorKind
	}{
		{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"},"request_id":"req_011C"}`, overflow},
		{"Anthropic", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, overflow},
		{"Anthropic", 400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again\"}}", overflow},
		{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}`, quota},
		{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}`, quota},
		{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.1: tool_use ids must be unique"}}`, invalid},
		{"Anthropic", 401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, auth},
		{"Anthropic", 403, `{"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."}}`, auth},
		{"Anthropic", 404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-none"}}`, invalid},
		{"Anthropic", 429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 80,000 input tokens per minute (org: 4f1c500b). For details, refer to: https://docs.anthropic.com/en/api/rate-limits."}}`, rate},
		{"Anthropic", 500, `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`, server},
		{"Anthropic", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, overloaded},
		{"Anthropic in the stream", 0, `{"type":"error","error":{"details":null,"type":"overloaded_error","message":"Overloaded"}}`, overloaded},
		{"Anthropic in the stream", 0, `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`, server},
		{"Anthropic in the stream", 0, `{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}`, refusal},
		{"Anthropic billing", 402, `{"type":"error","error":{"type":"billing_error","message":"There is an issue with your payment"}}`, quota},
		{"OpenAI", 400, `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130512 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, overflow},
		{"OpenAI responses", 400, `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`, overflow},
		{"OpenAI", 401, `{"error":{"message":"Incorrect API key provided: sk-abcde***************wxyz. You can find your API key at https://platform.openai.com/account/api-keys.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, auth},
		{"OpenAI", 429, `{"error":{"message":"Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Used 28000, Requested 5000. Please try again in 6s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, rate},
		{"OpenAI", 429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, quota},
		{"OpenAI", 429, `{"error":{"message":"Billing hard limit has been reached","type":"invalid_request_error","code":"billing_hard_limit_reached"}}`, quota},
		{"OpenAI", 403, `{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","param":null,"type":"request_forbidden"}}`, auth},
		{"OpenAI", 500, `{"error":{"message":"The server had an error while processing your request. Sorry about that!","type":"server_error","param":null,"code":null}}`, server},
		{"OpenAI", 503, `{"error":{"message":"That model is currently overloaded with other requests.","type":"server_error","param":null,"code":null}}`, overloaded},
		{"OpenAI", 503, `{"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded","code":null}}`, overloaded},
		{"OpenAI", 400, `{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error","code":"invalid_prompt"}}`, refusal},
		{"OpenAI", 404, `{"error":{"message":"The model 'gpt-9' does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, invalid},
		{"OpenAI responses stream", 0, `{"type":"error","code":"server_is_overloaded","message":"Our servers are currently overloaded. Please try again later.","param":null,"sequence_number":3}`, overloaded},
		{"OpenAI responses stream", 0, `{"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"rate_limit_exceeded","message":"Rate limit reached"}}}`, rate},
		{"OpenAI responses stream", 0, `{"type":"response.failed","response":{"error":{"code":"server_error","message":"An error occurred while processing your request."}}}`, server},
		{"ChatGPT plan", 429, `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_in_seconds":3600}}`, quota},
		{"Azure", 429, `{"error":{"code":"RateLimitReached","message":"Your requests to gpt-5 have exceeded token rate limit of your current AIServices S0 pricing tier. Please retry after 27 seconds. To increase your default rate limit visit: https://aka.ms/oai/quotaincrease."}}`, rate},
		{"Azure", 429, `{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation have exceeded call rate limit. Please retry after 9 seconds."}}`, rate},
		{"Azure", 400, `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, refusal},
		{"Azure", 401, `{"error":{"code":"401","message":"Access denied due to invalid subscription key or wrong API endpoint."}}`, auth},
		{"Azure", 404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, invalid},
		{"Google", 400, `{"error":{"code":400,"message":"The input token count (1200345) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, overflow},
		{"Google", 400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}`, auth},
		{"Google", 403, `{"error":{"code":403,"message":"Generative Language API has not been used in project 1 before or it is disabled.","status":"PERMISSION_DENIED"}}`, auth},
		{"Google per minute", 429, `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generate_content_free_tier_requests","quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}]}}`, rate},
		{"Google per day", 429, `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"12s"}]}}`, quota},
		{"Google", 429, `{"error":{"code":429,"message":"Resource exhausted. Please try again later.","status":"RESOURCE_EXHAUSTED"}}`, rate},
		{"Google", 429, `[{"error":{"code":429,"message":"Quota exceeded, check your billing","status":"RESOURCE_EXHAUSTED"}}]`, quota},
		{"Vertex", 429, `{"error":{"code":429,"message":"Quota exceeded for aiplatform.googleapis.com/online_prediction_requests_per_base_model per minute","status":"ABORTED"}}`, rate},
		{"Google", 503, `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`, overloaded},
		{"Google", 500, `{"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}`, server},
		{"Google", 504, `{"error":{"code":504,"message":"Deadline expired before operation could complete.","status":"DEADLINE_EXCEEDED"}}`, server},
		{"Bedrock", 400, `{"message":"Input is too long for requested model."}`, overflow},
		{"Bedrock", 429, `{"__type":"com.amazon.coral.service#ThrottlingException","message":"Too many tokens, please wait before trying again."}`, rate},
		{"Bedrock", 400, `{"__type":"ThrottlingException","message":"Too many tokens per day, please wait before trying again."}`, rate},
		{"Bedrock", 403, `{"__type":"AccessDeniedException","message":"You don't have access to the model with the specified model ID."}`, auth},
		{"Bedrock", 424, `{"__type":"ModelErrorException","message":"The model returned an error."}`, invalid},
		{"xAI", 400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 140231 tokens."}`, overflow},
		{"xAI", 403, `{"code":"The caller does not have permission to execute the specified operation","error":"Your team has either used all available credits or reached its monthly spending limit."}`, quota},
		{"xAI", 400, `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***yz. You can obtain an API key from https://console.x.ai."}`, auth},
		{"Groq", 400, `{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, overflow},
		{"Groq", 413, `{"error":{"message":"Request too large for model llama in organization org on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}`, overflow},
		{"Groq", 429, `{"error":{"message":"Rate limit reached for model in organization org on tokens per day (TPD): Limit 100000, Used 99000, Requested 2000. Please try again in 14m24s.","type":"tokens","code":"rate_limit_exceeded"}}`, rate},
		{"Groq", 498, `{"error":{"message":"Flex tier capacity exceeded","type":"internal_server_error","code":"flex_capacity_exceeded"}}`, overloaded},
		{"Groq", 400, `{"error":{"message":"Failed to call a function. Please adjust your prompt.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"x"}}`, invalid},
		{"OpenRouter", 400, `{"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens.","code":400,"metadata":{"provider_name":null}}}`, overflow},
		{"OpenRouter", 402, `{"error":{"message":"This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford 1234.","code":402}}`, quota},
		{"OpenRouter", 429, `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"model is temporarily rate-limited upstream. Please retry shortly.","provider_name":"Chutes"}}}`, rate},
		{"OpenRouter", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 1 tokens > 0 maximum\"}}","provider_name":"Anthropic"}}}`, overflow},
		{"OpenRouter", 400, `{"error":{"message":"Provider returned error","code":400}}`, server},
		{"OpenRouter in the stream", 0, `{"id":"gen-1","error":{"code":502,"message":"Provider disconnected"},"choices":[{"finish_reason":"error"}]}`, server},
		{"OpenRouter", 401, `{"error":{"message":"No auth credentials found","code":401}}`, auth},
		{"OpenRouter in a 200", 200, `{"error":{"message":"Rate limit exceeded: free-models-per-min.","code":429}}`, rate},
		{"Mistral", 400, `{"object":"error","message":"Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length","type":"invalid_request_prompt","param":null,"code":"3051"}`, overflow},
		{"Mistral", 422, `{"detail":[{"type":"extra_forbidden","loc":["body","store"],"msg":"Extra inputs are not permitted","input":false}]}`, invalid},
		{"Mistral", 429, `{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","param":null,"code":"3505"}`, rate},
		{"Mistral", 401, `{"detail":"Unauthorized"}`, auth},
		{"DeepSeek", 402, `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`, quota},
		{"DeepSeek", 400, `{"error":{"message":"This model's maximum context length is 65536 tokens. However, you requested 70000 tokens","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, overflow},
		{"z.ai", 429, `{"error":{"code":"1113","message":"Insufficient balance or no resource package. Please recharge."}}`, quota},
		{"z.ai", 429, `{"error":{"code":"1302","message":"High concurrency usage of this API, please reduce concurrency or contact customer service to increase limits"}}`, rate},
		{"z.ai", 429, `{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2026-11-20 10:00:00"}}`, quota},
		{"z.ai", 400, `{"error":{"code":"1261","message":"Prompt exceeds max length"}}`, overflow},
		{"z.ai", 429, `{"error":{"code":"1305","message":"The service may be temporarily overloaded, please try again later"}}`, overloaded},
		{"Zhipu", 429, `{"error":{"code":"1","message":"余额不足或无可用资源包,请充值。"}}`, quota},
		{"Moonshot", 400, `{"error":{"message":"Invalid request: Your request exceeded model token limit: 131072","type":"invalid_request_error"}}`, overflow},
		{"Moonshot", 429, `{"error":{"message":"Your account org-1 request reached organization max RPM: 3, please try again after 1 seconds","type":"rate_limit_reached_error"}}`, rate},
		{"Moonshot", 429, `{"error":{"message":"You exceeded your current token quota: org, please check your account balance","type":"exceeded_current_quota_error"}}`, quota},
		{"Moonshot", 429, `{"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}}`, overloaded},
		{"MiniMax", 200, `{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, quota},
		{"MiniMax", 400, `{"type":"error","error":{"type":"bad_request_error","message":"invalid params, context window exceeds limit (2013)"}}`, overflow},
		{"MiniMax", 200, `{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}`, rate},
		{"DashScope", 400, `{"error":{"code":"invalid_parameter_error","message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]","type":"invalid_request_error"}}`, overflow},
		{"DashScope", 429, `{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded, please try again later.","request_id":"x"}`, rate},
		{"DashScope", 400, `{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing.","request_id":"x"}`, quota},
		{"DashScope", 400, `{"error":{"code":"data_inspection_failed","message":"Input data may contain inappropriate content."}}`, refusal},
		{"Hugging Face", 503, `{"error":"Model meta-llama/x is currently loading","estimated_time":20.0}`, overloaded},
		{"Hugging Face", 402, `{"error":"You have exceeded your monthly included credits for Inference Providers."}`, quota},
		{"GitHub Copilot", 400, `{"error":{"message":"prompt token count of 150000 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}`, overflow},
		{"GitHub Copilot", 401, "unauthorized: token expired\n", auth},
		{"Vercel gateway", 402, `{"error":{"message":"Insufficient funds. Please add credits to your account.","type":"insufficient_funds"}}`, quota},
		{"Cloudflare", 429, `{"errors":[{"code":3040,"message":"Capacity temporarily exceeded, please try again."}],"success":false,"result":{},"messages":[]}`, rate},
		{"Cerebras", 429, `{"message":"Tokens per minute limit exceeded - too many tokens processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}`, rate},
		{"Fireworks", 400, `{"error":{"object":"error","type":"invalid_request_error","code":"invalid_request_error","message":"The prompt is too long: 140000, model maximum context length: 131071"}}`, overflow},
		{"Together", 422, `{"error":{"message":"Input validation error: inputs tokens + max_new_tokens must be <= 8193. Given: 9000","type":"invalid_request_error"}}`, overflow},
		{"llama.cpp", 400, `{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}`, overflow},
		{"llama.cpp", 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, overloaded},
		{"LM Studio", 400, `{"error":"The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length."}`, overflow},
		{"Ollama", 500, `{"error":{"message":"prompt too long; exceeded max context length by 1234 tokens","type":"api_error"}}`, overflow},
		{"Ollama", 404, `{"error":{"message":"model 'qwen9' not found","type":"api_error","param":null,"code":null}}`, invalid},
		{"Ollama", 400, `{"error":"registry.ollama.ai/library/gemma:2b does not support tools"}`, invalid},
		{"vLLM", 400, `{"object":"error","message":"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the messages, 1000 in the completion).","type":"BadRequestError","param":null,"code":400}`, overflow},
		{"vLLM in the stream", 0, `{"error":{"object":"error","message":"Internal server error","type":"InternalServerError","param":null,"code":500}}`, server},
		{"SGLang", 400, `{"object":"error","message":"The input (33000 tokens) is longer than the model's context length of 32768 tokens.","type":"BadRequestError","code":400}`, overflow},
		{"LiteLLM", 429, `{"error":{"message":"Budget has been exceeded! Current cost: 10.1, Max budget: 10.0","type":"budget_exceeded","param":null,"code":"400"}}`, quota},
		{"LiteLLM", 400, `{"error":{"message":"litellm.ContextWindowExceededError: too big","type":null,"param":null,"code":"400"}}`, overflow},
		{"OpenCode", 429, `{"type":"error","error":{"type":"FreeUsageLimitError","message":"Free usage exceeded"}}`, quota},
		{"nginx", 502, "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>", server},
		{"nginx", 413, "<html><head><title>413 Request Entity Too Large</title></head></html>", overflow},
		{"Envoy", 503, "upstream connect error or disconnect/reset before headers. reset reason: connection termination", overloaded},
		{"Envoy as 400", 400, "upstream connect error or disconnect/reset before headers", network},
		{"a gateway as 400", 400, "Throttling: rate exceeded", rate},
		{"Cloudflare", 524, "error code: 524", server},
		{"Cloudflare", 520, "", server},
		{"a load balancer", 504, "stream timeout", server},
		{"anything", 418, "teapot", invalid},
		{"anything", 300, "", invalid},
		{"anything", 405, "", invalid},
		{"anything", 429, "", rate},
		{"anything", 500, `{"request_id":"req_429_too_many_requests"}`, server},
		{"a number in a text", 400, `{"error":{"message":"max_tokens: 5000 must be less than 4290","type":"invalid_request_error"}}`, invalid},
		{"rate limit that speaks of tokens", 400, "rate limit: too many tokens", rate},
		{"a parameter", 400, `{"error":{"message":"Unknown parameter: 'timeout'"}}`, invalid},
		{"a parameter", 400, `{"error":{"message":"timeout: expected a number"}}`, invalid},
		{"a parameter", 400, `{"error":{"message":"Unsupported parameter: 'billing'"}}`, invalid},
		{"a parameter", 422, `{"detail":[{"msg":"Extra inputs are not permitted","loc":["body","rate_limit"]}]}`, invalid},
		{"a parameter", 0, `{"error":{"message":"Unknown parameter: 'timeout'"}}`, invalid},
		{"a value", 400, `{"error":{"message":"service_tier must be one of overloaded, flex"}}`, invalid},
		{"a value", 404, `{"error":{"message":"model connection-timeout not found"}}`, invalid},
		{"a status", 403, `{"error":{"message":"too many tokens in your organization"}}`, protocol.ErrorAuth},
		{"LM Studio", 400, `{"error":"Trying to keep the first 6000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}`, overflow},
		{"LM Studio", 400, `{"error":"Reached context length of 4096 tokens with this model"}`, overflow},
		{"LM Studio, in the stream", 0, `{"error":{"message":"Reached context length of 4096 tokens, but this model does not support mid-generation context overflow"}}`, overflow},
		{"SiliconFlow", 400, `{"code":20015,"message":"length of prompt_tokens (137000) must be less than max_seq_len (131072).","data":null}`, overflow},
		{"Volcengine", 400, `{"error":{"code":"InvalidParameter","message":"Total tokens of image and text exceed max message tokens. Request id: 021","param":"","type":"BadRequest"}}`, overflow},
		{"vLLM, old", 400, `{"object":"error","message":"max_tokens must be at least 1, got -1234.","type":"BadRequestError","param":null,"code":400}`, overflow},
		{"TGI", 422, "{\"error\":\"Input validation error: `inputs` must have less than 4095 tokens. Given: 6000\",\"error_type\":\"validation\"}", overflow},
		{"a gateway", 400, `{"error":{"message":"the max input tokens is 128000, but got 140000"}}`, overflow},
		{"SiliconFlow", 400, `{"code":20015,"message":"The parameter is invalid. Please check again.","data":null}`, invalid},
		{"in the stream", 0, `{"error":"connection reset by peer"}`, network},
		{"in the stream", 0, `{"error":{"message":"socket hang up"}}`, network},
		{"in the stream", 0, `{"error":{"message":"service unavailable"}}`, overloaded},
		{"in the stream", 0, `{"error":{"message":"Too Many Requests"}}`, rate},
		{"in the stream", 0, `{"error":{"message":"what?"}}`, server},
		{"in the stream", 0, `{"error":{"message":"bad image","type":"invalid_request_error"}}`, invalid},
	} {
		got := Classify(c.status, nil, []byte(c.body))
		assert.Equal(t, c.want, got.Kind, "%s, %d: %s", c.vendor, c.status, c.body)
		assert.Equal(t, c.status, got.Status)
	}
}

func TestClassify_text(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"JSON", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, `529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`},
		{"pretty JSON", 400, "{\n  \"error\": {\n    \"code\": 400\n  }\n}\n", `400 {"error":{"code":400}}`},
		{"in the stream", 0, ` {"type":"error"} `, `{"type":"error"}`},
		{"text", 502, "\n Bad\r\n   Gateway \n", "502 Bad Gateway"},
		{"nothing", 500, "", "500 status code (no body)"},
		{"white space", 500, " \n", "500 status code (no body)"},
		{"not UTF-8", 500, "a\xffb", "500 a\uFFFDb"},
		{"a string", 500, `"down"`, `500 "down"`},
	} {
		assert.Equal(t, c.want, Classify(c.status, nil, []byte(c.body)).Message, c.name)
	}
	long := Classify(500, nil, []byte(strings.Repeat("é", 100_000))).Message
	assert.Less(t, len(long), maxMessage+100)
	assert.Contains(t, long, "bytes more")
	assert.True(t, strings.HasPrefix(long, "500 ééé"))
	Classify(400, nil, []byte(strings.Repeat("[", 1<<20))) // deep nesting must not kill the process
}

func TestClassify_secrets(t *testing.T) {
	for _, secret := range []string{
		"sk-ant-api03-AbCdEfGhIjKlMnOpQrStUv", "sk-proj-0123456789abcdef", "sk-abcde***************wxyz", "AIzaSyA0123456789abcdefghijk",
		"gsk_0123456789abcdefghij", "xai-0123456789abcdef", "hf_abcdefghijklmnop", "ghp_0123456789abcdefghij", "github_pat_11ABCDEFG0123456789",
		"AKIAIOSFODNN7EXAMPLE", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh", "nvapi-0123456789abcdef",
	} {
		for _, body := range []string{`{"error":{"message":"bad key ` + secret + ` given"}}`, "bad key: " + secret} {
			message := Classify(401, nil, []byte(body)).Message
			assert.NotContains(t, message, secret)
			assert.Contains(t, message, "bad key")
		}
	}
	assert.Equal(t, "500 GET https://x.example/v1?a=1&key=***&b=2 failed", Classify(500, nil, []byte("GET https://x.example/v1?a=1&key=s3cr3t-value&b=2 failed")).Message)
	assert.Equal(t, "500 Authorization: Bearer ***", Classify(500, nil, []byte("Authorization: Bearer abcdefghijkl")).Message)
	harmless := "task-based risk-assessment asks sk- for hf_x keys"
	assert.Equal(t, "400 "+harmless, Classify(400, nil, []byte(harmless)).Message)
}

func TestMask_credentials(t *testing.T) {
	c := providers.Credentials{Key: `my key"+/`, Headers: map[string]string{
		"Authorization": "Token supersecretvalue", "X-Team": "demo", "X-Long": "my key\"+/ and more"}}
	err := protocol.ErrorAuth.Errorf(`raw my key"+/ json my key\"+/ url my+key%%22%%2B%%2F token supersecretvalue team demo long my key"+/ and more`)
	assert.Equal(t, `raw *** json *** url *** token *** team demo long ***`, mask(&c, err).Message)
	assert.Empty(t, secretsOf(&providers.Credentials{}), "no secrets, nothing to mask")
	for at := maxMessage - 30; at < maxMessage+5; at += 5 { // wherever a long text is cut
		long := Classify(500, nil, []byte(strings.Repeat("x", at)+"canary-0123456789"+strings.Repeat("y", 9000)))
		key := providers.Credentials{Key: "canary-0123456789"}
		assert.NotContains(t, mask(&key, long).Message, "canary", at)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	h := func(pairs ...string) http.Header {
		header := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			header.Set(pairs[i], pairs[i+1])
		}
		return header
	}
	for _, c := range []struct {
		name   string
		header http.Header
		body   string
		want   time.Duration
	}{
		{"nothing", nil, "", 0},
		{"seconds", h("Retry-After", "7"), "", 7 * time.Second},
		{"fraction", h("Retry-After", "1.5"), "", 1500 * time.Millisecond},
		{"spaces", h("Retry-After", " 7 "), "", 7 * time.Second},
		{"a date", h("Retry-After", "Fri, 20 Nov 2026 12:01:30 GMT"), "", 90 * time.Second},
		{"a date by the other clock", h("Retry-After", "Fri, 20 Nov 2026 10:00:30 GMT", "Date", "Fri, 20 Nov 2026 10:00:00 GMT"), "", 30 * time.Second},
		{"a past date", h("Retry-After", "Fri, 20 Nov 2026 11:00:00 GMT"), "", 0},
		{"milliseconds win", h("Retry-After-Ms", "250", "Retry-After", "7"), "", 250 * time.Millisecond},
		{"zero", h("Retry-After", "0"), "", 0},
		{"negative", h("Retry-After", "-3"), "", 0},
		{"nonsense", h("Retry-After", "soon"), "", 0},
		{"nonsense falls through", h("Retry-After", "soon", "X-Ratelimit-Reset-After", "4"), "", 4 * time.Second},
		{"NaN", h("Retry-After", "NaN"), "", 0},
		{"infinite", h("Retry-After", "Inf"), "", 0},
		{"huge", h("Retry-After", "1e300"), "", 0},
		{"larger than time", h("Retry-After", "99999999999999999999"), "", 0},
		{"two days", h("Retry-After", "172800"), "", maxRetryAfter},
		{"epoch seconds", h("X-Ratelimit-Reset", "1795176060"), "", 60 * time.Second},
		{"epoch milliseconds", h("X-Ratelimit-Reset", "1795176005000"), "", 5 * time.Second},
		{"a duration", h("X-Ratelimit-Reset", "6m0s"), "", 6 * time.Minute},
		{"the exhausted one", h("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "1.2s", "X-Ratelimit-Remaining-Requests", "9", "X-Ratelimit-Reset-Requests", "8h"), "", 1200 * time.Millisecond},
		{"Anthropic", h("Anthropic-Ratelimit-Input-Tokens-Remaining", "0", "Anthropic-Ratelimit-Input-Tokens-Reset", "2026-11-20T12:00:41Z"), "", 41 * time.Second},
		{"none exhausted", h("X-Ratelimit-Remaining-Requests", "9", "X-Ratelimit-Reset-Requests", "8h"), "", 0},
		{"in a sentence", nil, "Please try again in 6m1.5s.", 6*time.Minute + 1500*time.Millisecond},
		{"in milliseconds", nil, `{"error":{"message":"Please try again in 120ms. Visit"}}`, 120 * time.Millisecond},
		{"in words", nil, "Please retry after 27 seconds.", 27 * time.Second},
		{"one minute", nil, "try again in 1 minute", time.Minute},
		{"reset", nil, "Your quota will reset after 18h31m10s.", 18*time.Hour + 31*time.Minute + 10*time.Second},
		{"Google", nil, `{"error":{"details":[{"@type":"x"},{"retryDelay":"34.07s"}]}}`, 34070 * time.Millisecond},
		{"Google in a list", nil, `[{"error":{"details":[{"retryDelay":"3s"}]}}]`, 3 * time.Second},
		{"a ChatGPT plan", nil, `{"error":{"type":"usage_limit_reached","resets_in_seconds":60}}`, time.Minute},
		{"longer than time", nil, "try again in 3000000h", maxRetryAfter},
		{"a number in the body", nil, `{"error":{"retry_after":3.5}}`, 3500 * time.Millisecond},
		{"header before body", h("Retry-After", "2"), "try again in 50s", 2 * time.Second},
		{"a harmless sentence", nil, "try again in a while, after 5 tokens", 0},
	} {
		header := c.header
		if header == nil {
			header = http.Header{}
		}
		assert.Equal(t, c.want, retryAfter(header, []byte(c.body), now), c.name)
	}
	final := Classify(400, h("Retry-After", "7"), []byte("no"))
	assert.Zero(t, final.RetryAfter, "what is not retried needs no time")
}

type timeoutError struct{}

func (timeoutError) Error() string   { return "slow" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func TestClassifyTransport(t *testing.T) {
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
	op := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: os.NewSyscallError("connect", err)}
	}
	for _, c := range []struct {
		err    error
		inBody bool
		want   protocol.ErrorKind
		text   string
	}{
		{op(syscall.ECONNREFUSED), false, protocol.ErrorNetwork, "connection refused (127.0.0.1:9)"},
		{op(syscall.ECONNRESET), true, protocol.ErrorNetwork, "connection reset"},
		{op(syscall.EPIPE), false, protocol.ErrorNetwork, "connection reset"},
		{op(syscall.EHOSTUNREACH), false, protocol.ErrorNetwork, "no route"},
		{&net.DNSError{Name: "api.example", Err: "no such host", IsNotFound: true}, false, protocol.ErrorNetwork, `host "api.example" not found`},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, false, protocol.ErrorNetwork, "certificate"},
		{x509.UnknownAuthorityError{}, false, protocol.ErrorNetwork, "certificate"},
		{tls.RecordHeaderError{Msg: "x"}, false, protocol.ErrorNetwork, "does not speak TLS"},
		{io.EOF, false, protocol.ErrorNetwork, "closed before the response"},
		{io.ErrUnexpectedEOF, true, protocol.ErrorCutStream, "ended without its closing event"},
		{io.EOF, true, protocol.ErrorCutStream, "ended without its closing event"},
		{timeoutError{}, false, protocol.ErrorNetwork, "timed out"},
		{os.ErrDeadlineExceeded, false, protocol.ErrorNetwork, "timed out"},
		{fmt.Errorf("wrapped: %w", context.Canceled), false, protocol.ErrorAborted, "aborted"},
		{ErrEventTooLarge, true, protocol.ErrorServer, "size limit"},
		{protocol.ErrorQuota.Errorf("x"), true, protocol.ErrorQuota, "x"},
		{errors.New("proxyconnect https://user?key=hidden-value"), false, protocol.ErrorNetwork, "key=***"},
	} {
		got := ClassifyTransport(c.err, c.inBody)
		require.NotNil(t, got)
		assert.Equal(t, c.want, got.Kind, "%v", c.err)
		assert.Contains(t, got.Message, c.text)
	}
}
