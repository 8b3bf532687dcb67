package sandboxtest

import "testing"

type conformance struct {
	name string
	test func(*testing.T, Fixture)
}

// suite is what each backend passes.
var suite = []conformance{
	{"States", testStates},
	{"CreateTwice", testCreateTwice},
	{"CreateFails", testCreateFails},
	{"Parallel", testParallel},
	{"GitInside", testGitInside},
	{"Environment", testEnvironment},
	{"LikeAddAll", testLikeAddAll},
	{"AtRandom", testAtRandom},
	{"Changes", testChanges},
	{"TenThousandFiles", testManyFiles},
	{"Case18Submodule", testSubmodule},
	{"SubmoduleByIndex", testSubmoduleByIndex},
	{"SparseCheckout", testSparse},
	{"Case20LargeFileStorage", testCase20},
	{"Case25SiblingsIntact", testCase25},
	{"Refused", testRefused},
	{"Unreadable", testUnreadable},
	{"DeepPath", testDeepPath},
	{"Bottomless", testBottomless},
	{"Huge", testHuge},
	{"HostileGit", testHostileGit},
	{"NestedRepository", testNestedRepository},
	{"StoreUntouched", testStoreUntouched},
	{"Promote", testPromote},
	{"PromoteHunks", testPromoteHunks},
	{"PromoteTwice", testPromoteTwice},
	{"DiscardRecords", testDiscardRecords},
	{"DiscardTwice", testDiscardTwice},
	{"DiscardRefuses", testDiscardRefuses},
	{"DiscardStops", testDiscardStops},
	{"DiscardWhileWritten", testDiscardWhileWritten},
	{"DiscardOfAnother", testDiscardOfAnother},
	{"Layer", testLayer},
	{"Recover", testRecover},
	{"RecoverNothing", testRecoverNothing},
	{"AgentCommits", testAgentCommits},
	{"HostileCommits", testHostileCommits},
	{"OddObjects", testOddObjects},
	{"Start", testStart},
	{"StartTwice", testStartTwice},
	{"Stop", testStop},
	{"StopStubborn", testStopStubborn},
	{"SupervisorKilled", testSupervisorKilled},
	{"Busy", testBusy},
	{"LogCapped", testLogCapped},
	{"CannotStart", testCannotStart},
	{"Directory", testDirectory},
	{"Scratch", testScratch},
	{"RunCheck", testRunCheck},
	{"Case23Killed", testKilled},
	{"HalfMade", testHalfMade},
	{"TwoProcesses", testTwoProcesses},
	{"Shallow", testShallow},
	{"NothingLeft", testNothingLeft},
}

// Run runs all cases on the backend that open gives.
func Run(t *testing.T, open Opener) {
	for _, c := range suite {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, New(t, open))
		})
	}
}
