package main

import (
	"errors"

	"troupe/actors/kernel"
	"troupe/protocol"
	"troupe/providers/catalog"
	"troupe/providers/registry"
	"troupe/tools"
	"troupe/tools/extension"
)

// extHostErrand is the word with which troupe starts itself to run extensions, so that
// what breaks there does not break the daemon.
const extHostErrand = "ext-host"

// knownModels are the models of a provider, or of all, as extensions see them.
func knownModels(provider string) []byte {
	return protocol.AppendValue(nil, registry.Known(catalog.FS, provider))
}

func knownName(provider string) string { return registry.KnownName(catalog.FS, provider) }

// engineOf is the engine that --extension-host names.
func engineOf(host string) string {
	switch host {
	case extension.EngineQuick, extension.EngineNode:
		return host
	}
	return extension.EngineAuto
}

// extHost runs extensions for the daemon until it is gone.
func extHost(engine string) int {
	conn, err := extension.FromChild()
	if err != nil {
		return refuse(errors.New(extHostErrand + " is a part of troupe that it starts itself"))
	}
	defer conn.Close()
	guard := tools.NewGuard()
	defer guard.Close()
	err = extension.Serve(conn, extension.Options{
		Limits: extension.DefaultLimits(), CacheDir: extension.CacheDir(), Guard: guard, Files: &tools.Files{}, Version: version, PiVersion: piVersion,
		Models: knownModels, ProviderName: knownName, Engine: engineOf(engine), Turns: kernel.New(),
	})
	if err != nil {
		return exitCode(err)
	}
	return exitOK
}
