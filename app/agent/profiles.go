package agent

// noKey stands where a command line insists on a key. The real one never enters a sandbox: agents hand their environment to
// the commands that a model writes (seen with claude 2.1.332 and codex 0.171.0). The broker puts it on outside.
const noKey = "the-key-is-outside-of-the-sandbox"

// profiles are the well-known agents. Each command line was run to its end with the version that is named, non-interactively
// and with all tools allowed, since the boundary is the sandbox's and not the agent's own. Names of models are defaults. What an
// agent would have its vendor's servers do, such as a search of the web, is switched off where the broker would refuse it.
func profiles() []Profile {
	return []Profile{claudeProfile(), codexProfile(), opencodeProfile(), geminiProfile(), copilotProfile(), piProfile()}
}

func claudeProfile() Profile {
	return Profile{
		Name: "claude", Version: "2.1.332", Model: "anthropic", parser: newClaude,
		argv: func(prompt string) []string {
			return []string{"claude", "-p", prompt, "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions",
				"--disallowedTools", "WebSearch"}
		},
		env: func(base string) []string {
			return []string{
				"ANTHROPIC_BASE_URL=" + base,
				"ANTHROPIC_API_KEY=" + noKey,
				"IS_SANDBOX=1", // without it the bypass is refused to root
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
				"CLAUDE_CODE_MAX_RETRIES=4", // ten by default: a refused key then takes minutes
			}
		},
	}
}

func codexProfile() Profile {
	return Profile{
		Name: "codex", Version: "0.171.0", Model: "openai", parser: newCodex,
		argv: func(prompt string) []string {
			return []string{"codex", "exec", "--json", "--dangerously-bypass-approvals-and-sandbox", prompt}
		},
		env: func(string) []string { return []string{"CODEX_HOME=" + home + "/.codex", "OPENAI_API_KEY=" + noKey} },
		files: func(base string) map[string]string {
			return map[string]string{
				// A provider of one's own goes straight to HTTP; the built-in one first tries a WebSocket for seconds.
				".codex/config.toml": `model = "gpt-5.5"
model_provider = "sandpiper"
web_search = "disabled"

[model_providers.sandpiper]
name = "Sandpiper"
base_url = "` + base + `/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"

[shell_environment_policy]
inherit = "core"
`,
				// codex runs commands in a login shell, and /etc/profile sets PATH anew.
				".bash_profile": "PATH=$PATH:/usr/local/go/bin\n",
			}
		},
	}
}

func opencodeProfile() Profile {
	return Profile{
		Name: "opencode", Version: "1.18.33", Model: "openai", parser: newOpencode,
		argv: func(prompt string) []string {
			return []string{"opencode", "run", "--pure", "--format", "json", "--auto", prompt}
		},
		env: func(base string) []string {
			return []string{
				`OPENCODE_CONFIG_CONTENT={"autoupdate":false,"share":"disabled","model":"sandpiper/gpt-5.5","provider":{"sandpiper":{` +
					`"npm":"@ai-sdk/openai-compatible","name":"Sandpiper","options":{"baseURL":"` + base + `/v1","apiKey":"` + noKey + `"},` +
					`"models":{"gpt-5.5":{"name":"gpt-5.5","limit":{"context":272000,"output":128000}}}}}}`,
				"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
				"OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "npm_config_offline=true", // without: 40 seconds of tries at a registry
			}
		},
	}
}

func geminiProfile() Profile {
	return Profile{
		Name: "gemini", Version: "0.61.0", Model: "gemini", parser: newGemini,
		argv: func(prompt string) []string {
			return []string{"gemini", "-p", prompt, "-m", "gemini-2.5-pro", "--yolo", "--skip-trust", "-o", "stream-json"}
		},
		env: func(base string) []string {
			return []string{"GEMINI_CLI_HOME=" + home, "GEMINI_API_KEY=" + noKey, "GOOGLE_GEMINI_BASE_URL=" + base}
		},
		files: func(string) map[string]string {
			return map[string]string{
				// The key alone is not taken (status 41): the way to authenticate has to be chosen here.
				".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"general":{"enableAutoUpdate":false}}` + "\n",
			}
		},
	}
}

func copilotProfile() Profile {
	return Profile{
		Name: "copilot", Version: "1.0.102", Model: "openai", parser: newCopilot,
		argv: func(prompt string) []string {
			return []string{"copilot", "-p", prompt, "--allow-all", "--output-format", "json"}
		},
		env: func(base string) []string {
			return []string{
				"COPILOT_HOME=" + home + "/.copilot", "XDG_CACHE_HOME=" + home + "/.cache", "COPILOT_OFFLINE=true",
				"COPILOT_PROVIDER_BASE_URL=" + base + "/v1", "COPILOT_PROVIDER_API_KEY=" + noKey, "COPILOT_MODEL=gpt-5.5",
			}
		},
	}
}

func piProfile() Profile {
	return Profile{
		Name: "pi", Version: "0.73.1", Model: "openai", parser: newPi,
		argv: func(prompt string) []string {
			return []string{"pi", "-p", "--mode", "json", "--provider", "sandpiper", "--model", "gpt-5.5", prompt}
		},
		env: func(string) []string { return []string{"PI_OFFLINE=1"} }, // no look for updates
		files: func(base string) map[string]string {
			return map[string]string{
				".pi/agent/models.json": `{"providers":{"sandpiper":{"baseUrl":"` + base + `/v1","api":"openai-completions","apiKey":"` + noKey + `","models":[{"id":"gpt-5.5"}]}}}` + "\n",
			}
		},
	}
}
