// Package extension runs the TypeScript extensions of sessions.
//
// A session has one VM, a realm of JavaScript with all its extensions in it, owned by one
// goroutine. A [Host] opens VMs: in this process (Inline), or in a child (Child) that is the
// same code behind frames on a socket. The daemon says things to a VM and never waits; what
// the VM has to say comes to a sink, in order.
//
// What JavaScript does on its own (files, processes, fetch, timers) it does here. What concerns
// the session is an Act, which tells the daemon, or an Op, which asks it. All these words are those
// of package protocol/extension.
//
// # The snapshot
//
// Handlers read these without waiting; who changes one says Update before the next Tell or
// Call. null takes a member out.
//
//	idle, running, pending       ctx.isIdle; whether ctx.signal is there; how many messages wait
//	model, models, availableModels, scopedModels, thinkingLevel, authProviders, oauthProviders
//	tools, activeTools           [{name, description, …}], [name]; what pi.getAllTools and getActiveTools give
//	commands, settings           what pi.getCommands and getSettings give
//	sessionId, sessionFile, sessionDir, sessionName, leafId
//	systemPrompt, systemPromptOptions, contextUsage, trusted
//
// # Acts and their arguments
//
//	sendMessage       {message: {customType, content, display, details}, options: {triggerTurn, deliverAs}}
//	sendUserMessage   {content, options: {deliverAs, expandPromptTemplates}}
//	appendEntry       {entryId, customType, data}: the mirror shows entryId until an Entry of that customType comes
//	setLabel          {entryId, label}          setSessionName {name}
//	setActiveTools    {names}                   setThinkingLevel {level}
//	abort, shutdown   null
//	ui                a record of extension_ui_request without type and id: notify, setStatus,
//	                  setWidget, setTitle, set_editor_text
//
// # Ops, their arguments and answers
//
//	ui                the record → {value} | {confirmed} | {cancelled: true}: select, confirm, input, editor
//	setModel          {provider, modelId} → true or false
//	compact           {customInstructions} → the result of the compaction
//	newSession        {parentSession, setup: [{method, args}]} → {cancelled}; Rebind comes before the answer
//	switchSession     {sessionPath}, fork {entryId, position}: likewise
//	navigateTree      {targetId, summarize, customInstructions, replaceInstructions, label} → {cancelled}
//	waitForIdle, reload   null → null
//	apiKey            {provider, modelId} → {apiKey, headers}
//	executeTool       {parent, name, args} → {toolCall, result, isError, durationMs}; Parts come before it
//	complete          {model, context, options} → the assistant message; Parts come before it
package extension
