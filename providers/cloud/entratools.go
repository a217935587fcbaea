package cloud

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// azureCLI asks `az` for a token of who has logged in there. It is asked by a resource, since its
// older versions know no scopes.
func (l *entraLogin) azureCLI(ctx context.Context, scope string) (token, error) {
	tenant, err := l.tenant()
	if err != nil {
		return token{}, err
	}
	args := []string{"account", "get-access-token", "-o", "json", "--resource", resourceOf(scope)}
	if tenant != "" {
		args = append(args, "--tenant", tenant)
	}
	said, err := l.tool(ctx, nil, "az", args...)
	if err != nil {
		return token{}, err
	}
	end, ok := endOf(said.Get("expires_on"), gjson.Result{}, time.Time{})
	if !ok || end.Unix() == 0 { // az before 2.54
		end, err = time.ParseInLocation(time.DateTime, said.Get("expiresOn").Str, time.Local)
	}
	return toolToken(said.Get("accessToken").Str, end, err)
}

// azureDeveloperCLI asks `azd` for a token of who has logged in there.
func (l *entraLogin) azureDeveloperCLI(ctx context.Context, scope string) (token, error) {
	tenant, err := l.tenant()
	if err != nil {
		return token{}, err
	}
	args := []string{"auth", "token", "-o", "json", "--no-prompt", "--scope", scope}
	if tenant != "" {
		args = append(args, "--tenant-id", tenant)
	}
	said, err := l.tool(ctx, azdWhy, "azd", args...)
	if err != nil {
		return token{}, err
	}
	end, err := time.Parse(time.RFC3339, said.Get("expiresOn").Str)
	return toolToken(said.Get("token").Str, end, err)
}

// azdWhy finds the message in the lines of JSON that azd complains in.
func azdWhy(stderr string) string {
	var second string
	for line := range strings.Lines(stderr) {
		if !protocol.ValidJSON([]byte(line)) {
			continue
		}
		v := gjson.Parse(line)
		if why := v.Get("error").Str; why != "" {
			return why
		}
		if second == "" {
			second = strings.TrimSpace(v.Get("data.message").Str)
		}
	}
	return second
}

// accountsModule is what PowerShell knows Azure by.
const accountsModule = "the module Az.Accounts is not installed"

// azurePowerShell asks PowerShell for a token of who has logged in there. Its module has given
// tokens as text and as secure strings.
func (l *entraLogin) azurePowerShell(ctx context.Context, scope string) (token, error) {
	tenant, err := l.tenant()
	if err != nil {
		return token{}, err
	}
	script := "$ErrorActionPreference = 'Stop'\n" +
		"$az = Import-Module Az.Accounts -MinimumVersion 2.2.0 -PassThru -ErrorAction SilentlyContinue\n" +
		"if (-not $az) { Write-Error '" + accountsModule + "' }\n" +
		"$how = @{ ResourceUrl = '" + resourceOf(scope) + "'; WarningAction = 'Ignore' }\n"
	if tenant != "" {
		script += "$how['TenantId'] = '" + tenant + "'\n"
	}
	script += "if ($az.Version -ge [version]'2.17.0' -and $az.Version -lt [version]'5.0.0') { $how['AsSecureString'] = $true }\n" +
		"$got = Get-AzAccessToken @how\n" +
		"$text = $got.Token\n" +
		"if ($text -is [System.Security.SecureString]) { $text = [System.Net.NetworkCredential]::new('', $text).Password }\n" +
		"@{ Token = $text; ExpiresOn = $got.ExpiresOn.ToUnixTimeSeconds() } | ConvertTo-Json\n"
	utf16 := make([]byte, 0, 2*len(script))
	for _, c := range []byte(script) { // all ASCII
		utf16 = append(utf16, c, 0)
	}
	said, err := l.tool(ctx, powerShellWhy, "pwsh", "-NoProfile", "-NonInteractive", "-OutputFormat", "Text", "-EncodedCommand", base64.StdEncoding.EncodeToString(utf16))
	if err != nil {
		return token{}, err
	}
	seconds, ok := secondsOf(said.Get("ExpiresOn"))
	if !ok {
		return token{}, absent{errNoToken}
	}
	return toolToken(said.Get("Token").Str, time.Unix(seconds, 0), nil)
}

// powerShellWhy finds the two complaints with a cure.
func powerShellWhy(stderr string) string {
	switch {
	case strings.Contains(stderr, accountsModule):
		return accountsModule
	case strings.Contains(stderr, "Connect-AzAccount"):
		return "run Connect-AzAccount to log in"
	}
	return ""
}

// maxComplaint is how much of what a tool complains of is repeated, in bytes.
const maxComplaint = 600

// tool runs a tool and reads the JSON that it prints. A tool that fails is one that nobody has
// logged in with: the next source is asked. why finds the reason in what it complains of, nil
// and "" for all of it.
func (l *entraLogin) tool(ctx context.Context, why func(stderr string) string, name string, args ...string) (gjson.Result, error) {
	if l.run == nil {
		return gjson.Result{}, absentf("%s is not run here", name)
	}
	out, stderr, err := l.run(ctx, name, args...)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return gjson.Result{}, absentf("%s is not installed", name)
	case err != nil:
		text := strings.TrimSpace(stderr)
		if why != nil {
			if reason := why(stderr); reason != "" {
				text = reason
			}
		}
		if len(text) > maxComplaint {
			text = strings.ToValidUTF8(text[:maxComplaint], "") + "..."
		}
		return gjson.Result{}, absentf("%s: %w: %s", name, err, text)
	case !protocol.ValidJSON([]byte(out)):
		return gjson.Result{}, absentf("%s printed no JSON", name)
	}
	return gjson.Parse(out), nil
}

// toolToken is a token that a tool printed.
func toolToken(value string, end time.Time, err error) (token, error) {
	if err != nil {
		return token{}, absentf("the end of its token cannot be read: %w", err)
	}
	got, err := newToken(value, end)
	if err != nil {
		return token{}, absent{fmt.Errorf("it printed no token: %w", err)}
	}
	return got, nil
}
