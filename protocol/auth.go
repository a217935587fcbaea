package protocol

// AuthState is how a provider's credentials stand.
type AuthState string

const (
	AuthReady       AuthState = "ready"       // requests can be made
	AuthExpiring    AuthState = "expiring"    // they can, and the token could not be renewed
	AuthExpired     AuthState = "expired"     // the token is over; the next request renews it
	AuthInvalid     AuthState = "invalid"     // it cannot be renewed: somebody has to sign in
	AuthNone        AuthState = "none"        // there are none
	AuthUnsupported AuthState = "unsupported" // there is a login that is not used
)

// ProviderAuth says how a provider's requests are authenticated. Nothing of it is
// secret.
type ProviderAuth struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	State     AuthState `json:"state" enum:"ready,expiring,expired,invalid,none,unsupported"`
	Source    string    `json:"source,omitempty" enum:"command_line,stored_key,stored_oauth,broker,models_json,environment,ambient" doc:"The source of the credentials. ambient: those of a cloud, found by its tools. broker: obtained from pi."`
	Variable  string    `json:"variable,omitempty" doc:"With the source environment."`
	Methods   []string  `json:"methods" doc:"Methods of login: browser, paste, device, api_key."`
	Account   string    `json:"account,omitempty" doc:"The account of the login, masked."`
	UsedBy    int       `json:"usedBy" doc:"The number of open sessions that use a model of it."`
	ExpiresAt int64     `json:"expiresAt,omitempty" doc:"Epoch milliseconds; of a login, which is renewed by itself."`
	Reason    string    `json:"reason,omitempty" doc:"Why it cannot be used."`
	Hint      string    `json:"hint,omitempty" doc:"A hint for the user."`
}

// AuthReport is the answer to get_auth.
type AuthReport struct {
	Providers []ProviderAuth `json:"providers"`
}

// LoginProvider is somebody to sign in to, as oh-my-pi lists them.
type LoginProvider struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	Available     bool   `json:"available" doc:"login signs in to it by a browser."`
	Authenticated bool   `json:"authenticated"`
}

// LoginProviders is the answer to get_login_providers.
type LoginProviders struct {
	Providers []LoginProvider `json:"providers"`
}

// LoginResult is the answer to login.
type LoginResult struct {
	Provider   string `json:"provider"`
	ProviderID string `json:"providerId" doc:"The same, by oh-my-pi's name."`
	Account    string `json:"account,omitempty" doc:"The account, masked."`
}

// LogoutResult is the answer to logout.
type LogoutResult struct {
	Removed   bool   `json:"removed" doc:"There was an entry in auth.json."`
	Revoked   bool   `json:"revoked" doc:"The vendor has revoked the login."`
	Remaining string `json:"remaining,omitempty" doc:"The remaining source of credentials: a variable, or models.json."`
}
