// Asks Sluice whether a request of a user may pass. Java 17, no libraries; read the answer with your JSON library.
import java.io.IOException;
import java.net.URI;
import java.net.http.*;
import java.time.Duration;
import java.util.regex.Pattern;

class Caller {
    static final String SERVER = System.getenv("SLUICE_SERVER"), TOKEN = System.getenv("SLUICE_TOKEN");
    static final Duration TIMEOUT = Duration.ofMillis(
        (long) (1000 * Double.parseDouble(System.getenv().getOrDefault("TIMEOUT", "0.1"))));

    // One client for the whole program: it keeps connections open. HTTP/2 would begin each of them with an upgrade.
    static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    // The first request loads classes and connects, which can take longer than a check may. Call this at the start.
    static void warmUp() throws InterruptedException {
        try {
            var request = HttpRequest.newBuilder(URI.create(SERVER + "/livez")).timeout(Duration.ofSeconds(2)).build();
            CLIENT.send(request, HttpResponse.BodyHandlers.discarding());
        } catch (IOException unreachable) { } // so are the checks, until the server is back
    }

    // Returns the answer, or null if there was none in time.
    static String ask(String check) throws InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(SERVER + "/ratelimit/check")).timeout(TIMEOUT)
            .header("Content-Type", "application/json")
            .header("Sluice-Timeout-Ms", Long.toString(Math.max(1, Math.min(TIMEOUT.toMillis(), 1000))))
            .POST(HttpRequest.BodyPublishers.ofString(check));
        if (TOKEN != null && !TOKEN.isEmpty()) request.header("Authorization", "Bearer " + TOKEN);
        try {
            var response = CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() == 200) return response.body();
            if (response.statusCode() >= 500) return null;
            throw new IllegalStateException("the question is wrong: " + response.body());
        } catch (IOException noAnswerInTime) {
            return null;
        }
    }

    static String figure(String answer, String name) {
        var found = Pattern.compile("\"" + name + "\":(true|-?[0-9]+)").matcher(answer.split("\"limits\":")[0]);
        return found.find() ? found.group(1) : null;
    }

    public static void main(String[] args) throws InterruptedException {
        if (!args[0].matches("[A-Za-z0-9._@-]+")) throw new IllegalArgumentException("usage: Caller USER");
        warmUp();
        var answer = ask("{\"method\": \"POST\", \"route\": \"/reports\", \"user\": \"%s\"}".formatted(args[0]));
        if (answer == null) {
            System.out.println("allowed, Sluice did not answer"); // or deny, if that is worse for you
        } else if (figure(answer, "allowed") != null) {
            var left = figure(answer, "remaining");
            System.out.println("allowed, " + (left == null ? "no limit applies" : left + " left"));
        } else {
            var wait = figure(answer, "retry_after_ms");
            System.out.printf("denied with %s - wait %s ms%n", figure(answer, "status"), wait);
            System.exit(1); // send the headers and the body of the answer
        }
    }
}
