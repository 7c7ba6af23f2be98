import java.util.List;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.ApiResponse;
import org.openapitools.client.api.DecisionsApi;
import org.openapitools.client.api.RulesApi;
import org.openapitools.client.model.*;

/** Plays the journey with a client of openapi-generator's java. Client has what is particular to its library. */
public class Journey {
    static final long MINUTE = 60_000;

    final String name;
    final RulesApi rules;
    final DecisionsApi decisions;

    Journey(String url, String token, String name) {
        ApiClient client = Client.connect(url, token);
        this.name = name;
        this.rules = new RulesApi(client);
        this.decisions = new DecisionsApi(client);
    }

    public static void main(String[] args) throws Exception {
        Journey journey = new Journey(args[0], args[1], args[2]);
        journey.rules();
        journey.checks();
        journey.reserve();
        journey.explain();
    }

    static void hold(boolean condition, Object got) {
        if (!condition) {
            throw new AssertionError(got);
        }
    }

    interface Call {
        void run() throws ApiException;
    }

    static Problem problem(Call call) throws Exception {
        try {
            call.run();
        } catch (ApiException e) {
            return Client.problem(e.getResponseBody());
        }
        throw new AssertionError("the call succeeded");
    }

    RuleInput rule(String name, long limit) {
        return new RuleInput().name(name).scope("user").limit(limit).windowMs(MINUTE);
    }

    /** Steps 1 to 4. */
    void rules() throws Exception {
        ApiResponse<Rule> created = rules.createRuleWithHttpInfo(rule(name + "-shadow", 9)
            .mode(RuleInput.ModeEnum.SHADOW).failMode(RuleInput.FailModeEnum.CLOSED).isActive(false), null);
        Long id = created.getData().getId();
        String version = created.getHeaders().get(Client.ETAG).get(0);
        Rule patched = rules.patchRule(id, new RulePatch().limit(5L), version, null);
        hold(patched.getLimit() == 5 && patched.getMode() == Rule.ModeEnum.SHADOW
            && patched.getFailMode() == Rule.FailModeEnum.CLOSED && !patched.getIsActive(), patched);
        Problem stale = problem(() -> rules.patchRule(id, new RulePatch().limit(6L), version, null));
        hold(stale.getStatus() == 412 && "/problems/stale".equals(stale.getType()), stale);
        Rule users = rules.createRule(rule(name + "-users", 2).when("user == \"" + name + "\""), null);
        hold(users.getName().equals(name + "-users"), users);
    }

    /** Steps 5 to 8. */
    void checks() throws Exception {
        for (boolean allowed : List.of(true, true, false)) {
            Answer answer = decisions.check(new Check(new RequestCheck().user(name)), null);
            hold(answer.getAllowed() == allowed, answer);
            hold(allowed || answer.getRule().equals(name + "-users")
                && answer.getStatus() == Answer.StatusEnum.NUMBER_429
                && answer.getRetryAfterMs() > 0 && answer.getBody().getStatus().getValue() == 429
                && answer.getHeaders().getRetryAfter().equals(answer.getRetryAfterS().toString()), answer);
        }
        for (boolean allowed : List.of(true, false)) {
            Answer answer = decisions.check(new Check(new DirectCheck().key(name).limit(1L).windowMs(MINUTE)), null);
            hold(answer.getAllowed() == allowed, answer);
        }
        Answer several = decisions.check(new Check(new LimitsCheck()
            .addLimitsItem(new DirectLimit().key(name + "-a").limit(5L).windowMs(MINUTE))
            .addLimitsItem(new DirectLimit().key(name + "-b").limit(7L).windowMs(MINUTE))), null);
        hold(several.getLimits().get(1).getLimit() == 7, several);
        Question question = new Question(new DirectCheck().key(name + "-batch").limit(9L).windowMs(MINUTE));
        BatchCheck twice = new BatchCheck().addChecksItem(question).addChecksItem(question);
        BatchAnswer batch = decisions.checkBatch(twice, null);
        hold(batch.getResults().get(1).getRemaining() == 7, batch);
    }

    /** Step 9. */
    void reserve() throws Exception {
        Answer reserved = decisions.reserve(new Reserve(
            new DirectReserve().key(name + "-reserve").limit(9L).windowMs(MINUTE).weight(1L)), null);
        Answer settled = decisions.settle(new Settlement().reservation(reserved.getReservation()).weight(0L), null);
        hold(settled.getRefunded() == 1, settled);
    }

    /** Steps 10 to 12. */
    void explain() throws Exception {
        Explanation explained = decisions.explain(new ExplainQuestion(new RequestQuestion().user(name)));
        hold(!explained.getDecision().getAllowed() && explained.getRules().stream()
            .anyMatch(r -> r.getName().equals(name + "-users") && r.getMatched()), explained);
        RulePage page = rules.listRules(name, null, null, null, null, null, null, null, null, null, null);
        hold(page.getRules().stream().map(Rule::getName).toList()
            .equals(List.of(name + "-shadow", name + "-users")), page);
        Problem refused = problem(() -> rules.createRule(rule("Not A Name", 1), null));
        hold(refused.getStatus() == 422
            && refused.getErrors().stream().anyMatch(e -> e.getField().equals("name")), refused);
    }
}
