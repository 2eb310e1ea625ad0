package credentials

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// cases are the threats T1 to T20 and the cases C01 to C44 of the research on
// OAuth: the tests of this package that show what is done about them, or, where
// there is none, why.
var cases = map[string]string{
	"T1":  "TestForeignCallbackIsRefusedAndBurns",
	"T2":  "TestStateIsUsedOnce TestExpiredStateIsRefused TestOpenSignInIsTakenByCompareAndSwap TestDeviceSignIn",
	"T3":  "TestIssuer TestErrorOfAnotherIssuerIsIgnored TestCodeGoesOnlyToTheEndpointFixedAtTheStart",
	"T4":  "TestMetadataThatIsNotAccepted TestWellKnownPlacesInOrder; addresses are guarded in connector/transport",
	"T5":  "TestFailedExchangeIsNotRepeated; redirects of calls are refused in connector/transport",
	"T6":  "TestAuthorizationURL TestMetadataThatIsNotAccepted",
	"T7":  "TestRefreshHarness",
	"T8":  "TestRefreshHarness TestHolderThatWasPausedDoesNotSend TestLatePairDoesNotReplaceTheWinner",
	"T9":  "TestNothingSecretInDatabaseAndLog TestDeviceCodeIsSealed",
	"T10": "TestMovedCiphertextIsQuarantined; a row put back together with its version is not found out, as package keys says",
	"T11": "TestNothingSecretInDatabaseAndLog TestNoValuePrintsAToken TestSecret",
	"T12": "TestTenantAndPrincipalMatrix TestTenantAndPrincipalMatrixOfEveryKind TestForgottenTenantFindsNothing",
	"T13": "TestCredentialOverwrites; what comes in with a call is checked in mcpexpose",
	"T14": "TestReconnectWithAnotherAccountKeepsTheOld",
	"T15": "TestGrantedScopes TestStepUp TestStepUpHasALimit",
	"T16": "TestTokenAnswer TestOddExpiresInNeverCostsThePair TestPairSurvivesOddNeighbours TestDeviceAnswersThatAreNotAccepted",
	"T17": "TestOutageKeepsTheConnection TestMisconfiguredClientDegrades TestCircuitOfAClient",
	"T18": "TestMissingKeyKeepsTheConnection TestKeysThatAreNeeded TestRotationUnderLoad",
	"T19": "TestGrantThatWasNotStoredIsGivenBack TestGrantThatNothingCanStoreIsGivenBack TestDisconnectDuringAHundredCalls",
	"T20": "TestT20ClockJumpsForward TestT20ClockJumpsBetweenClaimAndSend TestT20ClockJumpsBack TestExpiryCountsFromBeforeTheRequest; a clock that jumps by two leases in the seconds in which the provider answers can let the same refresh token be sent twice",

	"C01": "TestRefreshHarness TestOneRefreshForManyCallersOfTwoProcesses",
	"C02": "TestRefreshHarness TestHolderThatWasPausedDoesNotSend TestNewRefuses",
	"C03": "TestOutageKeepsTheConnection",
	"C04": "TestStuckEndpointBlocksNobodyForGood",
	"C05": "TestCommitIsRetriedWhileTheDatabaseIsAway TestCrashBetweenAnswerAndCommitIsReconnectNotALoop",
	"C06": unnamed, "C07": "TestLostAnswerIsLostRotation TestDeadClaimIsReplayedOnce",
	"C08": "TestLateRefusalDoesNotEndTheConnection",
	"C09": "TestLatePairDoesNotReplaceTheWinner",
	"C10": "TestCallerWhoGivesUpDoesNotCancelTheRefresh",
	"C11": "TestOmittedRefreshTokenIsCarriedOver TestTokenAnswer",
	"C12": unnamed, "C13": "TestUnknownLifetimeIsRenewedOnRefusal TestDefaultLifetime",
	"C14": unnamed, "C15": "TestGrantedScopes",
	"C16": unnamed, "C17": "TestClassify",
	"C18": "TestClassify TestInvalidGrantAsksForANewSignIn",
	"C19": "TestInvalidGrantAsksForANewSignIn",
	"C20": "TestOutageKeepsTheConnection TestCircuitOfAClient",
	"C21": "TestStateIsUsedOnce TestOpenSignInIsTakenByCompareAndSwap",
	"C22": unnamed, "C23": "TestStateIsUsedOnce; the answer to a prefetch is the console's",
	"C24": "TestDiscoveredIssIsNotAdvertised; not described in the research, named there under T3",
	"C25": "TestIssuer TestDiscoveredProvider",
	"C26": "TestMetadataThatIsNotAccepted TestKnownMetadataOutlivesAnOutage",
	"C27": "TestFailedExchangeIsNotRepeated TestClassify",
	"C28": "TestNothingSecretInDatabaseAndLog",
	"C29": unnamed, "C30": "TestAuthorizationURL TestMetadataThatIsNotAccepted",
	"C31": "TestCodeExchangeIsOneRequest TestTokenAnswer",
	"C32": unnamed, "C33": "TestExpiredTokenIsNeverSent TestExpiryCountsFromBeforeTheRequest",
	"C34": "TestReconnectWithAnotherAccountKeepsTheOld TestStaticKey TestDeviceSignIn",
	"C35": "TestMovedCiphertextIsQuarantined",
	"C36": unnamed, "C37": "TestResealLetsTheOldKeyGo TestResealDoesNotPutAnOldTokenBack TestEverySealedColumnIsKnown",
	"C38": "not shown here: proxies are connector/transport's, TestEnvironmentProxyIsIgnored_G12 and its neighbours",
	"C39": unnamed, "C40": "TestMisconfiguredClientDegrades TestClientCredentialsRefused TestCircuitOfAClient",
	"C41": "TestCodeExchangeIsOneRequest TestFailedExchangeIsNotRepeated",
	"C42": "TestForeignCallbackIsRefusedAndBurns",
	"C43": "TestRevocationsFailAndRetryByThemselves TestFailedRefreshTokenDoesNotKeepTheAccessToken TestDisconnectDuringAHundredCalls",
	"C44": "TestDatabaseIsFreeDuringTheExchange",
}

const unnamed = "not shown: the research leaves this number out"

// The list has every case, and names tests that are there.
func TestEveryCaseIsShownOrSaysWhyNot(t *testing.T) {
	tests := make(map[string]bool)
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
	}
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprintf("T%d", i+1))
	}
	for i := range 44 {
		want = append(want, fmt.Sprintf("C%02d", i+1))
	}
	for _, id := range want {
		shown, _, _ := strings.Cut(cases[id], ";")
		switch {
		case strings.HasPrefix(shown, "not shown"):
			continue
		case shown == "":
			t.Errorf("%s is neither shown nor explained", id)
		}
		for name := range strings.FieldsSeq(shown) {
			if !tests[name] {
				t.Errorf("%s names %s, which is no test here", id, name)
			}
		}
	}
	if len(cases) != len(want) {
		t.Errorf("%d cases are listed, want %d", len(cases), len(want))
	}
}
