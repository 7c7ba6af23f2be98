// Asks Sluice whether a request of a user may pass. Java 17; read the answer with your JSON library.
import java.net.URI;
import java.net.http.*;
import java.time.Duration;

class Caller {
    public static void main(String[] args) throws Exception {
        var body = "{\"method\": \"POST\", \"route\": \"/reports\", \"user\": \"%s\"}".formatted(args[0]);
        var request = HttpRequest.newBuilder(URI.create(System.getenv("SLUICE_SERVER") + "/ratelimit/check"))
            .timeout(Duration.ofMillis(100)).header("Content-Type", "application/json").header("Sluice-Timeout-Ms", "100")
            .header("Authorization", "Bearer " + System.getenv("SLUICE_TOKEN"))
            .POST(HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> response = null;
        try {
            response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        } catch (java.io.IOException noAnswerInTime) { }
        if (response == null || response.statusCode() >= 500) {
            System.out.println("allowed, Sluice did not answer"); // or deny, if that is worse for you
        } else if (response.statusCode() != 200) {
            throw new IllegalStateException("the question is wrong: " + response.body());
        } else {
            System.out.println(response.body().contains("\"allowed\":true") ? "allowed" : "denied");
        }
    }
}
