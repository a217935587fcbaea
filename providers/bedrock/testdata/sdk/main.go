// Command sdk writes requests of ConverseStream as AWS's own library does: it reads bodies, one
// a line, gives their members to the library, which fails for one that it does not know, and
// writes what the library would send. It is a module of its own: the program does not
// need the library.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
)

// unions are the members that each may have, by their names on the wire.
var unions = map[reflect.Type][]any{
	of[types.ContentBlock](): {
		types.ContentBlockMemberText{}, types.ContentBlockMemberImage{}, types.ContentBlockMemberToolUse{}, types.ContentBlockMemberToolResult{},
		types.ContentBlockMemberReasoningContent{}, types.ContentBlockMemberCachePoint{},
	},
	of[types.SystemContentBlock]():     {types.SystemContentBlockMemberText{}, types.SystemContentBlockMemberCachePoint{}},
	of[types.ReasoningContentBlock]():  {types.ReasoningContentBlockMemberReasoningText{}, types.ReasoningContentBlockMemberRedactedContent{}},
	of[types.ToolResultContentBlock](): {types.ToolResultContentBlockMemberText{}, types.ToolResultContentBlockMemberImage{}},
	of[types.ImageSource]():            {types.ImageSourceMemberBytes{}},
	of[types.Tool]():                   {types.ToolMemberToolSpec{}, types.ToolMemberCachePoint{}},
	of[types.ToolInputSchema]():        {types.ToolInputSchemaMemberJson{}},
}

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

// fill gives a value of JSON to one of the library.
func fill(to reflect.Value, from any) {
	switch t := to.Type(); {
	case t == of[document.Interface]():
		to.Set(reflect.ValueOf(document.NewLazyDocument(from)))
	case unions[t] != nil:
		for name, value := range from.(map[string]any) {
			for _, m := range unions[t] {
				if strings.HasSuffix(reflect.TypeOf(m).Name(), "Member"+strings.ToUpper(name[:1])+name[1:]) {
					made := reflect.New(reflect.TypeOf(m))
					fill(made.Elem().FieldByName("Value"), value)
					to.Set(made)
				}
			}
		}
		if to.IsNil() || len(from.(map[string]any)) != 1 {
			panic(fmt.Sprintf("%v has none of %v", t, from))
		}
	case t.Kind() == reflect.Pointer:
		to.Set(reflect.New(t.Elem()))
		fill(to.Elem(), from)
	case t.Kind() == reflect.Struct:
		for name, value := range from.(map[string]any) {
			field := to.FieldByName(strings.ToUpper(name[:1]) + name[1:])
			if !field.IsValid() {
				panic(fmt.Sprintf("%v has no %s", t, name))
			}
			fill(field, value)
		}
	case t == of[[]byte]():
		b, err := base64.StdEncoding.DecodeString(from.(string))
		if err != nil {
			panic(err)
		}
		to.SetBytes(b)
	case t.Kind() == reflect.Slice:
		for _, value := range from.([]any) {
			one := reflect.New(t.Elem()).Elem()
			fill(one, value)
			to.Set(reflect.Append(to, one))
		}
	case t.Kind() == reflect.String:
		to.SetString(from.(string))
	case t.Kind() == reflect.Bool:
		to.SetBool(from.(bool))
	case t.Kind() == reflect.Int32:
		n := int64(from.(float64))
		if to.OverflowInt(n) || float64(n) != from.(float64) {
			panic(fmt.Sprintf("%v is no %v", from, t))
		}
		to.SetInt(n)
	default:
		panic("what is a " + t.String())
	}
}

// taker takes the request and answers nothing.
type taker struct{ body []byte }

func (k *taker) Do(r *http.Request) (*http.Response, error) {
	k.body, _ = io.ReadAll(r.Body)
	return &http.Response{StatusCode: http.StatusForbidden, Body: io.NopCloser(strings.NewReader("{}")), Header: http.Header{}}, nil
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var from map[string]any
		if err := json.Unmarshal(in.Bytes(), &from); err != nil {
			panic(err)
		}
		input := &bedrockruntime.ConverseStreamInput{}
		fill(reflect.ValueOf(input).Elem(), from)
		input.ModelId = aws.String("model")
		k := &taker{}
		client := bedrockruntime.New(bedrockruntime.Options{Region: "us-east-1", HTTPClient: k, Retryer: aws.NopRetryer{}, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "s"}, nil
		})})
		_, err := client.ConverseStream(context.Background(), input)
		if len(k.body) == 0 {
			panic(err)
		}
		var out bytes.Buffer
		if err := json.Compact(&out, k.body); err != nil {
			panic(err)
		}
		fmt.Println(out.String())
	}
}
