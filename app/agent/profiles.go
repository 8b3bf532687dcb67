package agent

// noKey stands where a command line insists on a key. The real one never enters a sandbox: agents hand their environment to
// the commands that a model writes (seen with claude 2.1.332 and codex 0.171.0).
const noKey = "the-key-is-outside-of-the-sandbox"

// profiles are the well-known agents. Each command line was run to its end with the version that is named, non-interactively
// and with all tools allowed, since the boundary is the sandbox's and not the agent's own. Names of models and addresses of
// their APIs are defaults.
func profiles() []Profile {
	return []Profile{claudeProfile(), codexProfile(), opencodeProfile(), geminiProfile(), copilotProfile(), piProfile()}
}

func claudeProfile() Profile {
	return Profile{
		Name: "claude", Version: "2.1.332", NeedsNetwork: true, parser: newClaude,
		argv: func(prompt string) []string {
			return []string{"claude", "-p", prompt, "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"}
		},
		env: []string{
			"ANTHROPIC_API_KEY=" + noKey,
			"IS_SANDBOX=1", // without it the last flag is refused to root
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"CLAUDE_CODE_MAX_RETRIES=4", // ten by default: a refused key then takes minutes
		},
	}
}

func codexProfile() Profile {
	return Profile{
		Name: "codex", Version: "0.171.0", NeedsNetwork: true, parser: newCodex,
		argv: func(prompt string) []string {
			return []string{"codex", "exec", "--json", "--dangerously-bypass-approvals-and-sandbox", prompt}
		},
		env: []string{"CODEX_HOME=" + home + "/.codex", "OPENAI_API_KEY=" + noKey},
		files: map[string]string{
			// A provider of one's own goes straight to HTTP; the built-in one first tries a WebSocket for seconds.
			".codex/config.toml": `model = "gpt-5.5"
model_provider = "sandpiper"

[model_providers.sandpiper]
name = "OpenAI"
base_url = "https://api.openai.com/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"

[shell_environment_policy]
inherit = "core"
`,
			// codex runs commands in a login shell, and /etc/profile sets PATH anew.
			".bash_profile": "PATH=$PATH:/usr/local/go/bin\n",
		},
	}
}

func opencodeProfile() Profile {
	return Profile{
		Name: "opencode", Version: "1.18.33", NeedsNetwork: true, parser: newOpencode,
		argv: func(prompt string) []string {
			return []string{"opencode", "run", "--pure", "--format", "json", "--auto", prompt}
		},
		env: []string{
			"ANTHROPIC_API_KEY=" + noKey,
			`OPENCODE_CONFIG_CONTENT={"autoupdate":false,"share":"disabled"}`,
			"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
			"OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "npm_config_offline=true", // without: 40 seconds of tries at a registry
		},
	}
}

func geminiProfile() Profile {
	return Profile{
		Name: "gemini", Version: "0.61.0", NeedsNetwork: true, parser: newGemini,
		argv: func(prompt string) []string {
			return []string{"gemini", "-p", prompt, "-m", "gemini-2.5-pro", "--yolo", "--skip-trust", "-o", "stream-json"}
		},
		env: []string{"GEMINI_CLI_HOME=" + home, "GEMINI_API_KEY=" + noKey},
		files: map[string]string{
			// The key alone is not taken (status 41): the way to authenticate has to be chosen here.
			".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"general":{"enableAutoUpdate":false}}` + "\n",
		},
	}
}

func copilotProfile() Profile {
	return Profile{
		Name: "copilot", Version: "1.0.102", NeedsNetwork: true, parser: newCopilot,
		argv: func(prompt string) []string {
			return []string{"copilot", "-p", prompt, "--allow-all", "--output-format", "json"}
		},
		env: []string{
			"COPILOT_HOME=" + home + "/.copilot", "XDG_CACHE_HOME=" + home + "/.cache", "COPILOT_OFFLINE=true",
			"COPILOT_PROVIDER_BASE_URL=https://api.openai.com/v1", "COPILOT_PROVIDER_API_KEY=" + noKey, "COPILOT_MODEL=gpt-5.5",
		},
	}
}

func piProfile() Profile {
	return Profile{
		Name: "pi", Version: "0.73.1", NeedsNetwork: true, parser: newPi,
		argv: func(prompt string) []string {
			return []string{"pi", "-p", "--mode", "json", "--provider", "sandpiper", "--model", "gpt-5.5", prompt}
		},
		env: []string{"PI_OFFLINE=1"}, // no look for updates
		files: map[string]string{
			".pi/agent/models.json": `{"providers":{"sandpiper":{"baseUrl":"https://api.openai.com/v1","api":"openai-completions","apiKey":"` + noKey + `","models":[{"id":"gpt-5.5"}]}}}` + "\n",
		},
	}
}
