package responses

import (
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// planWords is what codes begin with that are about the use of a ChatGPT plan.
const planWords = "subscription_sharing_"

// aboutPlan completes the error of a request that went with a plan: what the code means
// is not in the sentence, and asking again, or for another token, changes nothing.
func aboutPlan(err *protocol.StreamError, body []byte) *protocol.StreamError {
	code := ""
	for _, found := range gjson.GetManyBytes(body, "error.code", "response.error.code", "code", "detail.code") {
		if after, ok := strings.CutPrefix(found.Str, planWords); ok {
			code = after
		}
	}
	switch code {
	case "":
		return err
	case "usage_limit_exceeded":
		err.Kind = protocol.ErrorQuota
		err.Message += "\n\nThe limit of the ChatGPT plan is reached: https://chatgpt.com/settings/usage says until when."
	case "user_not_eligible":
		err.Kind = protocol.ErrorInvalid
		err.Message += "\n\nThe ChatGPT account cannot use its plan in other programs: that needs Plus or Pro. An API key works without."
	case "route_not_supported":
		err.Kind = protocol.ErrorInvalid
		err.Message += "\n\nThe ChatGPT plan does not cover this model or request. Choose another model, or use an API key."
	default:
		err.Kind = protocol.ErrorInvalid
	}
	return err
}
